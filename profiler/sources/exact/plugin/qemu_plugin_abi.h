/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The part of QEMU's TCG plugin interface that our plugins use, declared by hand: no Debian package
 * ships qemu-plugin.h. Two versions of it: 1 (QEMU 7.2, the newest that 7.2 loads) and 4 (QEMU 9.1
 * to 10.0). Source: QEMU's manual, "QEMU TCG Plugins", API section, of each of those releases.
 *
 * Define QEMU_PLUGIN_API as 1 or 4 before the first #include.
 */
#ifndef TMPROF_TESTBED_TIERSIM_QEMU_PLUGIN_ABI_H
#define TMPROF_TESTBED_TIERSIM_QEMU_PLUGIN_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if !defined(QEMU_PLUGIN_API) || (QEMU_PLUGIN_API != 1 && QEMU_PLUGIN_API != 4)
#error "QEMU_PLUGIN_API is 1 or 4"
#endif

#define QEMU_PLUGIN_EXPORT __attribute__((visibility("default")))

typedef uint64_t qemu_plugin_id_t;

typedef struct qemu_info_t {
  const char* target_name; /* "x86_64" */
  struct {
    int min; /* the oldest API that this QEMU loads */
    int cur;
  } version;
  bool system_emulation;
  struct { /* a union of one in QEMU; valid only for system emulation */
    int smp_vcpus;
    int max_vcpus;
  } system;
} qemu_info_t;

struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_plugin_hwaddr;

/* Opaque to a plugin; ask qemu_plugin_mem_is_store(). */
typedef uint32_t qemu_plugin_meminfo_t;

enum qemu_plugin_cb_flags {
  QEMU_PLUGIN_CB_NO_REGS,
  QEMU_PLUGIN_CB_R_REGS,
  QEMU_PLUGIN_CB_RW_REGS,
};

enum qemu_plugin_mem_rw {
  QEMU_PLUGIN_MEM_R = 1,
  QEMU_PLUGIN_MEM_W = 2,
  QEMU_PLUGIN_MEM_RW = 3,
};

typedef void (*qemu_plugin_simple_cb_t)(qemu_plugin_id_t id);
typedef void (*qemu_plugin_udata_cb_t)(qemu_plugin_id_t id, void* userdata);
typedef void (*qemu_plugin_vcpu_simple_cb_t)(qemu_plugin_id_t id, unsigned int vcpu_index);
typedef void (*qemu_plugin_vcpu_udata_cb_t)(unsigned int vcpu_index, void* userdata);
typedef void (*qemu_plugin_vcpu_tb_trans_cb_t)(qemu_plugin_id_t id, struct qemu_plugin_tb* tb);
typedef void (*qemu_plugin_vcpu_mem_cb_t)(unsigned int vcpu_index, qemu_plugin_meminfo_t info,
                                          uint64_t vaddr, void* userdata);
typedef void (*qemu_plugin_vcpu_syscall_cb_t)(qemu_plugin_id_t id, unsigned int vcpu_index,
                                              int64_t num, uint64_t a1, uint64_t a2, uint64_t a3,
                                              uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7,
                                              uint64_t a8);
typedef void (*qemu_plugin_vcpu_syscall_ret_cb_t)(qemu_plugin_id_t id, unsigned int vcpu_index,
                                                  int64_t num, int64_t ret);

/* Exports of a plugin: its API version, and its entry, which returns 0 or refuses. */
extern QEMU_PLUGIN_EXPORT int qemu_plugin_version;
QEMU_PLUGIN_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t* info, int argc,
                                           char** argv);

void qemu_plugin_register_vcpu_init_cb(qemu_plugin_id_t id, qemu_plugin_vcpu_simple_cb_t cb);
void qemu_plugin_register_vcpu_exit_cb(qemu_plugin_id_t id, qemu_plugin_vcpu_simple_cb_t cb);
void qemu_plugin_register_vcpu_idle_cb(qemu_plugin_id_t id, qemu_plugin_vcpu_simple_cb_t cb);
void qemu_plugin_register_vcpu_resume_cb(qemu_plugin_id_t id, qemu_plugin_vcpu_simple_cb_t cb);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, qemu_plugin_vcpu_tb_trans_cb_t cb);
void qemu_plugin_register_vcpu_syscall_cb(qemu_plugin_id_t id, qemu_plugin_vcpu_syscall_cb_t cb);
void qemu_plugin_register_vcpu_syscall_ret_cb(qemu_plugin_id_t id,
                                              qemu_plugin_vcpu_syscall_ret_cb_t cb);
void qemu_plugin_register_flush_cb(qemu_plugin_id_t id, qemu_plugin_simple_cb_t cb);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, qemu_plugin_udata_cb_t cb, void* userdata);

void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb* tb, qemu_plugin_vcpu_udata_cb_t cb,
                                          enum qemu_plugin_cb_flags flags, void* userdata);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn* insn,
                                            qemu_plugin_vcpu_udata_cb_t cb,
                                            enum qemu_plugin_cb_flags flags, void* userdata);
/* Register one callback for QEMU_PLUGIN_MEM_RW: a _R and a _W one are both called for the load and
 * for the store of a read-modify-write on API 1, and count each twice. */
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn* insn, qemu_plugin_vcpu_mem_cb_t cb,
                                      enum qemu_plugin_cb_flags flags, enum qemu_plugin_mem_rw rw,
                                      void* userdata);

size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb* tb);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb* tb);
struct qemu_plugin_insn* qemu_plugin_tb_get_insn(const struct qemu_plugin_tb* tb, size_t idx);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn* insn);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn* insn);

unsigned int qemu_plugin_mem_size_shift(qemu_plugin_meminfo_t info);
bool qemu_plugin_mem_is_store(qemu_plugin_meminfo_t info);

/* System emulation only, valid until the callback returns; NULL in user emulation. */
struct qemu_plugin_hwaddr* qemu_plugin_get_hwaddr(qemu_plugin_meminfo_t info, uint64_t vaddr);
bool qemu_plugin_hwaddr_is_io(const struct qemu_plugin_hwaddr* haddr);
uint64_t qemu_plugin_hwaddr_phys_addr(const struct qemu_plugin_hwaddr* haddr);

void qemu_plugin_outs(const char* string);

#if QEMU_PLUGIN_API == 1

const void* qemu_plugin_insn_data(const struct qemu_plugin_insn* insn);

#else

/* Copies up to `len` bytes of the instruction to `dest`; returns how many. */
size_t qemu_plugin_insn_data(const struct qemu_plugin_insn* insn, void* dest, size_t len);

/* An array with an element for each vCPU. Elements move when a vCPU is added. */
struct qemu_plugin_scoreboard;
typedef struct qemu_plugin_u64 {
  struct qemu_plugin_scoreboard* score;
  size_t offset; /* within an element */
} qemu_plugin_u64;

enum qemu_plugin_cond {
  QEMU_PLUGIN_COND_NEVER,
  QEMU_PLUGIN_COND_ALWAYS,
  QEMU_PLUGIN_COND_EQ,
  QEMU_PLUGIN_COND_NE,
  QEMU_PLUGIN_COND_LT,
  QEMU_PLUGIN_COND_LE,
  QEMU_PLUGIN_COND_GT,
  QEMU_PLUGIN_COND_GE,
};

enum qemu_plugin_op {
  QEMU_PLUGIN_INLINE_ADD_U64,
  QEMU_PLUGIN_INLINE_STORE_U64,
};

struct qemu_plugin_scoreboard* qemu_plugin_scoreboard_new(size_t element_size);
void qemu_plugin_scoreboard_free(struct qemu_plugin_scoreboard* score);
void* qemu_plugin_scoreboard_find(struct qemu_plugin_scoreboard* score, unsigned int vcpu_index);
void qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(struct qemu_plugin_tb* tb,
                                                       enum qemu_plugin_op op,
                                                       qemu_plugin_u64 entry, uint64_t imm);
void qemu_plugin_register_vcpu_tb_exec_cond_cb(struct qemu_plugin_tb* tb,
                                               qemu_plugin_vcpu_udata_cb_t cb,
                                               enum qemu_plugin_cb_flags flags,
                                               enum qemu_plugin_cond cond, qemu_plugin_u64 entry,
                                               uint64_t imm, void* userdata);
void qemu_plugin_register_vcpu_mem_inline_per_vcpu(struct qemu_plugin_insn* insn,
                                                   enum qemu_plugin_mem_rw rw,
                                                   enum qemu_plugin_op op, qemu_plugin_u64 entry,
                                                   uint64_t imm);
int qemu_plugin_num_vcpus(void);

/* NULL unless nobody else has it. */
const void* qemu_plugin_request_time_control(void);
void qemu_plugin_update_ns(const void* handle, int64_t time_ns);

struct qemu_plugin_register;
typedef struct qemu_plugin_reg_descriptor {
  struct qemu_plugin_register* handle;
  const char* name;
  const char* feature;
} qemu_plugin_reg_descriptor;

/* The public parts of GLib's GArray and GByteArray. */
typedef struct qemu_plugin_garray {
  void* data;
  unsigned int len; /* elements */
} qemu_plugin_garray;
typedef struct qemu_plugin_gbytearray {
  uint8_t* data;
  unsigned int len;
} qemu_plugin_gbytearray;

/* Array of qemu_plugin_reg_descriptor; the caller frees it with g_array_free(). Valid from
 * vcpu_init on. */
qemu_plugin_garray* qemu_plugin_get_registers(void);
/* Appends the value, in the target's byte order; returns its bytes, or -1. */
int qemu_plugin_read_register(struct qemu_plugin_register* handle, qemu_plugin_gbytearray* buf);

#endif

#endif /* TMPROF_TESTBED_TIERSIM_QEMU_PLUGIN_ABI_H */
