/* SPDX-License-Identifier: Apache-2.0 */
/* A shared library: it counts in objects of the program, and has a variable. */

volatile int part_calls[4];

void part_write(volatile int* at, int times) {
  for (int i = 0; i < times; ++i) at[i % 4] = i;
  for (int i = 0; i < 3; ++i) part_calls[i] = i;
}
