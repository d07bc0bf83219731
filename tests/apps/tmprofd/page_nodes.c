// SPDX-License-Identifier: Apache-2.0
/* Prints a line "VPN NODE" for each page of a process that is in memory, both in decimal. */

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE 4096

static void print_page(int pid, uint64_t vpn) {
  void* address = (void*)(vpn * PAGE);
  int node;

  if (syscall(SYS_move_pages, pid, 1UL, &address, NULL, &node, 0) == 0 && node >= 0)
    printf("%llu %d\n", (unsigned long long)vpn, node);
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
    for (; start < end; start += PAGE) print_page(atoi(argv[1]), start / PAGE);
  }
  fclose(maps);
  return 0;
}
