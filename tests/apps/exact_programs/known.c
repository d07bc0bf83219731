// SPDX-License-Identifier: Apache-2.0
/*
 * A program without a library or a stack, whose every memory access stands here. Of the eight pages
 * from 0x10000000 on, page i gets 1000 * (i + 1) loads, 10 * (i + 1) stores and 3
 * read-modify-writes (a load and a store each).
 */
__asm__(
    ".section .counted, \"aw\", @nobits\n"
    ".balign 4096\n"
    ".space 8 * 4096\n"
    ".text\n"
    ".globl _start\n"
    "_start:\n"
    "  mov $0x10000000, %ebx\n"
    "  mov $1, %r12d\n"
    "1:\n"
    "  imul $1000, %r12d, %ecx\n"
    "2:\n"
    "  mov (%rbx), %rax\n"
    "  dec %ecx\n"
    "  jnz 2b\n"
    "  imul $10, %r12d, %ecx\n"
    "3:\n"
    "  mov %rax, 64(%rbx)\n"
    "  dec %ecx\n"
    "  jnz 3b\n"
    "  addq $1, 128(%rbx)\n"
    "  addq $1, 128(%rbx)\n"
    "  addq $1, 4088(%rbx)\n"
    "  add $4096, %rbx\n"
    "  inc %r12d\n"
    "  cmp $8, %r12d\n"
    "  jbe 1b\n"
    "  mov $231, %eax\n" /* exit_group(7) */
    "  mov $7, %edi\n"
    "  syscall\n");
