// SPDX-License-Identifier: Apache-2.0
// Objects of C++ and the binary search tree, whose accesses can be counted by hand. As known.c.

#include <cstdio>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tmprof/objects.h"

#define NOINLINE __attribute__((noinline))

namespace {

void Say(const char* name, const void* object) {
  std::printf("%s %lu\n", name, static_cast<unsigned long>(mem_access_count64(object)));
}

NOINLINE void Fill(std::vector<int>& vector) {
  for (std::size_t i = 0; i < vector.size(); ++i) vector[i] = static_cast<int>(i);
}

NOINLINE long Sum(const std::vector<int>& vector) {
  long sum = 0;
  for (const int value : vector) sum += value;
  return sum;
}

struct Shape {
  virtual ~Shape() = default;
  virtual void Grow() = 0;
};
struct Square : Shape {
  NOINLINE void Grow() override { side = side + 1; }
  volatile int side = 0;
};

// One read of the pointer to the virtual functions, and in Grow() a read and a write.
NOINLINE void GrowTwice(Shape* shape) {
  shape->Grow();
  shape->Grow();
}

NOINLINE void WriteAndThrow(volatile int* at) {
  at[0] = 1;
  throw std::runtime_error("thrown");
}
// Two writes: one before the exception and one of the handler.
NOINLINE void CatchAndWrite(volatile int* at) {
  try {
    WriteAndThrow(at);
    at[1] = 1;
  } catch (const std::runtime_error&) {
    at[2] = 1;
  }
}

struct Node {
  explicit Node(int its_key) : key(its_key) {}
  volatile int key;
  Node* volatile left = nullptr;
  Node* volatile right = nullptr;
};

// A read of the key at each node on the way, and of a child at all but the last.
NOINLINE Node* Find(Node* at, int key) {
  while (at != nullptr) {
    const int here = at->key;
    if (here == key) break;
    at = key < here ? at->left : at->right;
  }
  return at;
}

NOINLINE void Insert(Node* root, int key) {
  Node* at = root;
  while (true) {
    Node* volatile& child = key < at->key ? at->left : at->right;
    Node* next = child;
    if (next == nullptr) {
      child = new Node(key);
      return;
    }
    at = next;
  }
}

volatile int global_array[100];
NOINLINE void FillGlobal(volatile int* array) {
  for (int i = 0; i < 100; ++i) array[i] = i;
}

}  // namespace

int main() {
  std::vector<int> vector(1000);
  mem_access_reset();
  Fill(vector);
  Say("vector-filled", vector.data());
  if (Sum(vector) != 499500) return 1;
  Say("vector-summed", vector.data());

  auto square = std::make_unique<Square>();
  mem_access_reset();
  GrowTwice(square.get());
  Say("virtual", square.get());

  auto words = std::make_unique<int[]>(3);
  mem_access_reset();
  CatchAndWrite(words.get());
  Say("exception", words.get());

  auto* top = new Node(4);
  for (const int key : {2, 6, 1, 3, 5, 7}) Insert(top, key);
  mem_access_reset();
  for (int key = 1; key <= 7; ++key) Find(top, key);
  Say("tree-root", top);
  Say("tree-inner", Find(top, 2));
  Say("tree-leaf", Find(top, 7));

  // Writes of one word a thread into neighbours on a line.
  auto slots = std::make_unique<long[]>(4);
  mem_access_reset();
  {
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back(
          [word = static_cast<volatile long*>(&slots[static_cast<std::size_t>(t)])] {
            for (int i = 0; i < 1000; ++i) *word = i;
          });
    }
    for (std::thread& thread : threads) thread.join();
  }
  Say("threads", slots.get());

  FillGlobal(global_array);  // a hundred, which the test reads in the file
  return 0;
}
