/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tells x86-64's non-temporal stores from other instructions by their bytes: MOVNTI, MOVNTQ,
 * MOVNTDQ, MOVNTPS, MOVNTPD, AMD's MOVNTSS and MOVNTSD, MASKMOVQ and MASKMOVDQU, and their VEX and
 * EVEX forms (Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, chapter 2 and
 * opcode map A-3).
 */
#ifndef TMPROF_TESTBED_TIERSIM_NONTEMPORAL_H
#define TMPROF_TESTBED_TIERSIM_NONTEMPORAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* `code`: the `bytes` bytes of one instruction of 64-bit mode. */
static inline bool tiersim_is_nontemporal_store(const uint8_t* code, size_t bytes) {
  size_t at = 0;
  bool operand_size = false; /* the prefix 66 */
  bool repeats = false;      /* F2 or F3 */
  bool is_vector = false;    /* VEX or EVEX */
  for (; at < bytes; ++at) {
    const uint8_t prefix = code[at];
    if (prefix == 0x66)
      operand_size = true;
    else if (prefix == 0xf2 || prefix == 0xf3)
      repeats = true;
    else if (prefix != 0x2e && prefix != 0x36 && prefix != 0x3e && prefix != 0x26 &&
             prefix != 0x64 && prefix != 0x65 && prefix != 0x67)
      break;
  }
  if (at < bytes && (code[at] & 0xf0) == 0x40) ++at; /* REX */
  if (bytes - at < 3) return false;
  uint8_t opcode, mandatory; /* 0 none, 1 the prefix 66, 2 F3, 3 F2 */
  if (code[at] == 0x0f) {
    opcode = code[at + 1];
    mandatory = repeats ? 2 : operand_size ? 1 : 0;
  } else if (code[at] == 0xc5) {
    mandatory = code[at + 1] & 3;
    opcode = code[at + 2];
    is_vector = true;
  } else if (code[at] == 0xc4 || code[at] == 0x62) {
    const uint8_t map = code[at + 1] & (code[at] == 0xc4 ? 0x1f : 0x07);
    const size_t opcode_at = at + (code[at] == 0xc4 ? 3 : 4);
    if (map != 1 || opcode_at >= bytes) return false;
    mandatory = code[at + 2] & 3;
    opcode = code[opcode_at];
    is_vector = true;
  } else {
    return false;
  }
  switch (opcode) {
    case 0x2b: /* MOVNTPS, MOVNTPD; MOVNTSS and MOVNTSD with F3 and F2 */
      return !is_vector || mandatory < 2;
    case 0xc3: /* MOVNTI */
      return !is_vector && mandatory == 0;
    case 0xe7: /* MOVNTQ, MOVNTDQ */
      return mandatory == 1 || (!is_vector && mandatory == 0);
    case 0xf7: /* MASKMOVQ, MASKMOVDQU */
      return mandatory == 1 || (!is_vector && mandatory == 0);
    default:
      return false;
  }
}

#endif /* TMPROF_TESTBED_TIERSIM_NONTEMPORAL_H */
