/* SPDX-License-Identifier: GPL-2.0-or-later OR Apache-2.0 */
/*
 * Tells if and how user-mode QEMU can run a program in our name. It loads ELF files itself, knows
 * no scripts, and gives nobody another user's rights. Both sides of the exact tracer use it: the
 * one that starts a program, and the plugin that follows its exec(2)s. C and C++.
 */
#ifndef TMPROF_TESTBED_TIERSIM_FORMAT_GUEST_PROGRAM_H
#define TMPROF_TESTBED_TIERSIM_FORMAT_GUEST_PROGRAM_H

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum tmprof_guest_verdict {
  TMPROF_GUEST_RUNS,
  TMPROF_GUEST_REFUSED,       /* the kernel may refuse it, too: errno says why */
  TMPROF_GUEST_OTHER_MACHINE, /* not x86-64 Linux */
  TMPROF_GUEST_OTHER_RIGHTS,  /* set-user-ID or set-group-ID, or not for us to read */
};

/* Bytes of a file that the kernel reads to tell its format (BINPRM_BUF_SIZE, linux/binfmts.h). */
enum { TMPROF_GUEST_HEAD_BYTES = 256 };

/* A program, and what comes before its own arguments where it is run by an interpreter. */
struct tmprof_guest_program {
  char path[PATH_MAX];       /* path of the ELF file */
  char script_argument[256]; /* argument of the #! line; empty: none */
  char script[PATH_MAX];     /* file that the interpreter is to read; empty: not a script */
};

/* Cuts "#! interpreter [argument]" at its end. False where it names no interpreter. */
static inline int tmprof_guest_split_script(char* head, char** interpreter, char** argument) {
  char* end = head + strcspn(head, "\n");
  while (end > head + 2 && strchr(" \t\n", end[-1])) --end;
  *end = '\0';
  *interpreter = head + 2 + strspn(head + 2, " \t");
  *argument = *interpreter + strcspn(*interpreter, " \t");
  if (**argument) {
    *(*argument)++ = '\0';
    *argument += strspn(*argument, " \t");
  }
  return **interpreter != '\0';
}

/*
 * Looks at the file `path`, and at its interpreter where it is a script. One whose interpreter is a
 * script, too, is TMPROF_GUEST_OTHER_MACHINE. Sets errno for TMPROF_GUEST_REFUSED.
 */
static inline enum tmprof_guest_verdict tmprof_guest_look(const char* path,
                                                          struct tmprof_guest_program* program) {
  union {
    char text[TMPROF_GUEST_HEAD_BYTES];
    Elf64_Ehdr elf;
  } head;
  struct stat file;
  ssize_t got;
  int fd;

  memset(program, 0, sizeof(*program));
  if (strlen(path) >= sizeof(program->path)) {
    errno = ENAMETOOLONG;
    return TMPROF_GUEST_REFUSED;
  }
  strcpy(program->path, path);
  for (int scripts = 0;; ++scripts) {
    char* interpreter;
    char* argument;

    if (access(program->path, X_OK) != 0 || stat(program->path, &file) != 0)
      return TMPROF_GUEST_REFUSED;
    if (!S_ISREG(file.st_mode)) {
      errno = EACCES;
      return TMPROF_GUEST_REFUSED;
    }
    if (((file.st_mode & S_ISUID) && file.st_uid != geteuid()) ||
        ((file.st_mode & S_ISGID) && (file.st_mode & S_IXGRP) && file.st_gid != getegid()))
      return TMPROF_GUEST_OTHER_RIGHTS;
    fd = open(program->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return TMPROF_GUEST_OTHER_RIGHTS; /* runs, but QEMU cannot read it */
    memset(&head, 0, sizeof(head));
    got = read(fd, head.text, sizeof(head.text) - 1);
    close(fd);
    if (got >= (ssize_t)sizeof(head.elf) && memcmp(head.elf.e_ident, ELFMAG, SELFMAG) == 0) {
      return head.elf.e_ident[EI_CLASS] == ELFCLASS64 && head.elf.e_machine == EM_X86_64
                 ? TMPROF_GUEST_RUNS
                 : TMPROF_GUEST_OTHER_MACHINE;
    }
    if (got < 2 || head.text[0] != '#' || head.text[1] != '!') {
      errno = ENOEXEC;
      return TMPROF_GUEST_REFUSED;
    }
    if (!tmprof_guest_split_script(head.text, &interpreter, &argument)) {
      errno = ENOEXEC;
      return TMPROF_GUEST_REFUSED;
    }
    if (scripts > 0) return TMPROF_GUEST_OTHER_MACHINE;
    strcpy(program->script, program->path);
    strcpy(program->script_argument, argument);
    strcpy(program->path, interpreter);
  }
}

#endif /* TMPROF_TESTBED_TIERSIM_FORMAT_GUEST_PROGRAM_H */
