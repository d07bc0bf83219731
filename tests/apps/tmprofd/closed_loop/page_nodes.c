// SPDX-License-Identifier: Apache-2.0
/* Prints a line "VPN NODE" for each page of a process that is in memory, both in decimal. */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE 4096UL
#define AT_A_TIME 4096

static void print_pages(int pid, uint64_t vpn, size_t count) {
  static void* addresses[AT_A_TIME];
  static int nodes[AT_A_TIME];
  size_t i;

  for (i = 0; i < count; i++) addresses[i] = (void*)((vpn + i) * PAGE);
  if (syscall(SYS_move_pages, pid, count, addresses, NULL, nodes, 0) != 0) return;
  for (i = 0; i < count; i++)
    if (nodes[i] >= 0) printf("%llu %d\n", (unsigned long long)(vpn + i), nodes[i]);
}

int main(int argc, char** argv) {
  char path[64];
  FILE* maps;
  unsigned long start, end;

  if (argc != 2) {
    fprintf(stderr, "usage: page_nodes PID\n");
    return 2;
  }
  snprintf(path, sizeof(path), "/proc/%s/maps", argv[1]);
  maps = fopen(path, "r");
  if (!maps) {
    perror(path);
    return 1;
  }
  while (fscanf(maps, "%lx-%lx%*[^\n]", &start, &end) == 2) {
    while (start < end) {
      size_t count = (end - start) / PAGE < AT_A_TIME ? (end - start) / PAGE : AT_A_TIME;

      print_pages(atoi(argv[1]), start / PAGE, count);
      start += count * PAGE;
    }
  }
  fclose(maps);
  return 0;
}
