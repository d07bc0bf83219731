/* SPDX-License-Identifier: Apache-2.0 */
/* What mixes hot and cold allocations: keys that are looked up all the time, and what they lead to,
 * allocated one after the other.
 *
 * records COUNT LOOKUPS: builds COUNT records, then looks up LOOKUPS keys at random, one after the
 * other; one in 4096 of them goes on to its payload. Prints a sum of what it read, so that a run
 * that went wrong shows. */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAYLOAD_BYTES = 464, PAYLOAD_EVERY = 4096 };

struct payload {
  char text[PAYLOAD_BYTES];
};

struct key {
  uint64_t number;
  uint64_t lookups;
  struct payload* payload;
  uint64_t unused[3];
};

__attribute__((noinline)) static struct key* make_key(uint64_t number) {
  struct key* made = malloc(sizeof(*made));
  if (made == NULL) abort();
  *made = (struct key){.number = number};
  return made;
}

__attribute__((noinline)) static struct payload* make_payload(uint64_t number) {
  struct payload* made = malloc(sizeof(*made));
  if (made == NULL) abort();
  memset(made->text, (int)(number % 251), sizeof(made->text));
  return made;
}

static uint64_t next_random(uint64_t* state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state;
}

static int read_count(const char* word, uint64_t* count) {
  char* end = NULL;
  *count = strtoull(word, &end, 10);
  return *word >= '0' && *word <= '9' && *end == '\0' && *count > 0;
}

int main(int argc, char** argv) {
  uint64_t count = 0;
  uint64_t lookups = 0;
  if (argc != 3 || !read_count(argv[1], &count) || !read_count(argv[2], &lookups)) {
    fprintf(stderr, "usage: records COUNT LOOKUPS\n");
    return 2;
  }
  struct key** keys = malloc(count * sizeof(*keys));
  if (keys == NULL) abort();
  for (uint64_t i = 0; i < count; ++i) {
    keys[i] = make_key(i);
    keys[i]->payload = make_payload(i);
  }
  uint64_t state = 88172645463325252u;
  uint64_t sum = 0;
  for (uint64_t i = 0; i < lookups; ++i) {
    struct key* key = keys[next_random(&state) % count];
    sum += key->number + ++key->lookups;
    if (i % PAYLOAD_EVERY == 0) sum += (unsigned char)key->payload->text[i % PAYLOAD_BYTES];
  }
  printf("%llu\n", (unsigned long long)sum);
  return 0;
}
