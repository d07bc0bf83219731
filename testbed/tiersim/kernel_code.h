/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The few instructions of the guest's kernel that tiersim acts upon. Source: Intel SDM vol. 2. */
#ifndef TMPROF_TESTBED_TIERSIM_KERNEL_CODE_H
#define TMPROF_TESTBED_TIERSIM_KERNEL_CODE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum tiersim_kernel_code {
  TIERSIM_CODE_OTHER,
  TIERSIM_CODE_DOORBELL,
  TIERSIM_CODE_LOAD_CR3,   /* loaded from a register */
  TIERSIM_CODE_FLUSH_PAGE, /* invlpg of what a register points to */
  TIERSIM_CODE_FLUSH_ALL,  /* another flush, or one whose extent is not decoded */
};

struct tiersim_kernel_insn {
  enum tiersim_kernel_code code;
  unsigned int reg; /* 0 rax, 1 rcx, … 15 r15 */
};

/* C and C++ have no expression for it in common. */
static inline struct tiersim_kernel_insn tiersim_insn(enum tiersim_kernel_code code,
                                                      unsigned int reg) {
  const struct tiersim_kernel_insn insn = {code, reg};
  return insn;
}

static inline struct tiersim_kernel_insn tiersim_decode_kernel(const uint8_t* bytes, size_t size) {
  const struct tiersim_kernel_insn other = tiersim_insn(TIERSIM_CODE_OTHER, 0);
  static const uint8_t doorbell[] = {0x4d, 0x87, 0xf6};
  static const uint8_t invpcid[] = {0x66, 0x0f, 0x38, 0x82};
  if (size == sizeof(doorbell) && !memcmp(bytes, doorbell, size))
    return tiersim_insn(TIERSIM_CODE_DOORBELL, 0);
  if (size > sizeof(invpcid) && !memcmp(bytes, invpcid, sizeof(invpcid)))
    return tiersim_insn(TIERSIM_CODE_FLUSH_ALL, 0);
  const unsigned int rex = size && (bytes[0] & 0xf0) == 0x40 ? bytes[0] : 0;
  const uint8_t* const opcode = bytes + (rex ? 1 : 0);
  if (size < (rex ? 4u : 3u) || opcode[0] != 0x0f) return other;
  const unsigned int mode = opcode[2] >> 6;
  const unsigned int field = (opcode[2] >> 3 & 7u) | (rex & 4u ? 8u : 0u);
  const unsigned int low = opcode[2] & 7u;
  const unsigned int reg = low | (rex & 1u ? 8u : 0u);
  if (opcode[1] == 0x22 && field == 3) return tiersim_insn(TIERSIM_CODE_LOAD_CR3, reg);
  if (opcode[1] == 0x22 && field == 4) /* CR4.PGE's change flushes */
    return tiersim_insn(TIERSIM_CODE_FLUSH_ALL, 0);
  if (opcode[1] == 0x01 && (field & 7u) == 7 && mode != 3) {
    if (mode == 0 && low != 4 && low != 5) return tiersim_insn(TIERSIM_CODE_FLUSH_PAGE, reg);
    return tiersim_insn(TIERSIM_CODE_FLUSH_ALL, 0);
  }
  return other;
}

#endif /* TMPROF_TESTBED_TIERSIM_KERNEL_CODE_H */
