// SPDX-License-Identifier: Apache-2.0
// Allocations that a tracker must report: built without frame pointers and without tmprof.

#include <dlfcn.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <threads.h>
#include <unistd.h>

#include <cerrno>
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

namespace {

void* volatile kept = nullptr;

__attribute__((noinline)) void* Make(std::size_t bytes) {
  void* made = std::malloc(bytes);
  kept = made;
  return made;
}

void Kinds() {
  std::free(Make(100'001));
  kept = std::calloc(10, 10'002);
  kept = std::realloc(kept, 200'003);
  kept = std::aligned_alloc(4096, 102'400);
  kept = new char[100'005];
  kept = ::reallocarray(nullptr, 10, 10'006);
  kept = ::reallocarray(kept, 10, 20'007);
  void* aligned = nullptr;
  if (::posix_memalign(&aligned, 64, 100'008) != 0) std::abort();
  kept = ::memalign(64, 100'009);
  kept = ::valloc(100'010);
  kept = ::pvalloc(100'011);
  void* mapped =
      ::mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ::munmap(mapped, 1 << 20);
}

void Small(std::size_t bytes, std::size_t times) {
  for (std::size_t i = 0; i < times; ++i) std::free(Make(bytes));
}

void Brief() {
  for (int i = 0; i < 2000; ++i) std::thread([] { std::free(Make(2500)); }).join();
}

void Threads() {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 1000; ++i) std::free(Make(50'000));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Alike but for the calls that lead there.
__attribute__((noinline)) void Left() {
  std::free(Make(100'001));
  asm volatile("");
}
__attribute__((noinline)) void Right() {
  std::free(Make(100'002));
  asm volatile("");
}

void Fork(const char* self) {
  Make(100'001);
  const pid_t forked = ::fork();
  if (forked == 0) {
    Make(100'002);
    ::_exit(0);
  }
  ::waitpid(forked, nullptr, 0);
  Make(100'003);
  ::execl(self, self, "kinds", nullptr);
}

// In each way, a child that becomes this program anew.
void Spawn(char* self) {
  Make(100'021);
  char kinds[] = "kinds";
  char* const arguments[] = {self, kinds, nullptr};
  pid_t child = ::fork();
  if (child == 0) {
    ::execv(self, arguments);
    ::_exit(1);
  }
  ::waitpid(child, nullptr, 0);
  child = ::vfork();
  if (child == 0) {
    ::execv(self, arguments);
    ::_exit(1);
  }
  ::waitpid(child, nullptr, 0);
  if (::posix_spawn(&child, self, nullptr, nullptr, arguments, environ) != 0) std::abort();
  ::waitpid(child, nullptr, 0);
  Make(100'022);
}

// One after the other.
void Load(std::span<char*> libraries) {
  for (const char* library : libraries) {
    void* loaded = ::dlopen(library, RTLD_NOW);
    if (loaded == nullptr) std::exit(2);
    reinterpret_cast<void* (*)(std::size_t)>(::dlsym(loaded, "library_make"))(100'001);
    ::dlclose(loaded);
  }
}

void Refused() {
  volatile std::size_t huge = std::size_t{1} << 62;
  try {
    kept = new char[huge];
  } catch (const std::bad_alloc&) {
    std::puts("bad_alloc");
  }
  if (std::malloc(huge) != nullptr || std::calloc(huge, 2) != nullptr) std::exit(3);
  void* object = Make(50'007);
  if (std::realloc(object, huge) != nullptr) std::exit(3);
  std::memset(object, 1, 50'007);  // it is still there
  std::free(object);
  std::free(Make(100'007));
}

jmp_buf back;

__attribute__((noinline)) void Jump() {
  std::free(Make(100'001));
  std::longjmp(back, 1);
}
__attribute__((noinline)) void Throw() {
  std::free(Make(100'002));
  throw 1;
}
__attribute__((noinline)) void Handle(int /*signal*/) {
  // The signal is raised, so that no allocation is interrupted.
  std::free(Make(100'003));
  ::siglongjmp(back, 1);
}

void Leaves() {
  std::signal(SIGUSR1, Handle);
  static int turn;  // jumps leave what is not in memory undefined
  for (turn = 0; turn < 100; ++turn) {
    if (setjmp(back) == 0) Jump();
    try {
      Throw();
    } catch (int) {
    }
    if (sigsetjmp(back, 1) == 0) ::raise(SIGUSR1);
  }
}

void Outlives(int ready, int go) {
  int made = 0;
  const auto make = [&](int times) {
    for (int i = 0; i < times; ++i) {
      std::free(Make(5000));
      ++made;
    }
  };
  make(1000);
  char byte = 'r';
  if (::write(ready, &byte, 1) != 1 || ::read(go, &byte, 1) != 1) std::exit(2);
  make(299'000);
  std::printf("%d\n", made);
}

// Small ones that live at once, as many as fit.
void Crowd(std::size_t bytes, std::size_t objects) {
  std::vector<void*> made(objects);
  for (void*& object : made) object = Make(bytes);
  for (void* object : made) std::free(object);
}

__attribute__((noinline)) void Spill() {
  std::free(Make(100'001));
  asm volatile("");
}

void SpillInEach() {
  const pid_t forked = ::fork();
  Spill();
  if (forked == 0) ::_exit(0);
  ::waitpid(forked, nullptr, 0);
}

// Messages then have a file of their own.
void SpillElsewhere(const char* file) {
  ::close(STDERR_FILENO);
  if (::open(file, O_WRONLY | O_CREAT, 0600) != STDERR_FILENO) std::abort();
  Spill();
}

// Prints where the C library has the thread's stack.
void SayStack() {
  pthread_attr_t attributes;
  if (::pthread_getattr_np(::pthread_self(), &attributes) != 0) std::abort();
  void* start = nullptr;
  std::size_t bytes = 0;
  ::pthread_attr_getstack(&attributes, &start, &bytes);
  ::pthread_attr_destroy(&attributes);
  std::printf("%p %zu\n", start, bytes);
}

void* Buffer(void* bytes) {
  ::prctl(PR_SET_NAME, "with buffer");
  std::free(Make(100'001));
  SayStack();
  return bytes;
}

int OfC11(void* argument) {
  ::prctl(PR_SET_NAME, "of C11");
  std::free(Make(100'002));
  SayStack();
  return argument != nullptr ? 11 : 0;
}

// Threads end in each way. Each leaves an object, and frees one in the last destructor that the C
// library calls for it.
pthread_key_t last_key;

struct Last {
  void* freed = nullptr;
  int rounds_left = PTHREAD_DESTRUCTOR_ITERATIONS - 1;
};

void* Leave(Last& last, int how) {
  last.freed = Make(100'031);
  ::pthread_setspecific(last_key, &last);
  static_cast<volatile char*>(Make(100'032))[0] = 1;
  if (how == 1) ::pthread_exit(nullptr);
  while (how == 2) ::pause();  // until it is cancelled
  return nullptr;
}

void Ends() {
  ::pthread_key_create(&last_key, [](void* context) {
    auto& last = *static_cast<Last*>(context);
    if (last.rounds_left-- > 0) {
      ::pthread_setspecific(last_key, context);
    } else {
      std::free(last.freed);
    }
  });
  void* (*const begin[])(void*) = {[](void* last) { return Leave(*static_cast<Last*>(last), 0); },
                                   [](void* last) { return Leave(*static_cast<Last*>(last), 1); },
                                   [](void* last) { return Leave(*static_cast<Last*>(last), 2); }};
  for (void* (*const each)(void*) : begin) {
    Last last;
    pthread_t thread;
    ::pthread_create(&thread, nullptr, each, &last);
    if (each == begin[2]) ::pthread_cancel(thread);
    ::pthread_join(thread, nullptr);
    if (last.rounds_left != -1) std::abort();
  }
}

// A handler that maps and unmaps a page, after each instruction of ten allocations. Prints how
// often it ran.
volatile std::sig_atomic_t steps = 0;

void MapPage(int /*signal*/) {
  void* page = ::mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED || ::munmap(page, 4096) != 0) std::abort();
  steps = steps + 1;
}

// Intel's manual, volume 3, 18.3.1.4: the processor traps after each instruction.
__attribute__((always_inline)) inline void SingleStep(bool is_on) {
  constexpr unsigned long long kTrapFlag = 1 << 8;
  const unsigned long long flags = __builtin_ia32_readeflags_u64();
  __builtin_ia32_writeeflags_u64(is_on ? flags | kTrapFlag : flags & ~kTrapFlag);
}

void Steps() {
  std::signal(SIGTRAP, MapPage);
  for (int round = 0; round < 11; ++round) {
    const bool is_first = round == 0;  // in which the C library, and what is preloaded, begin
    if (!is_first) SingleStep(true);
    std::free(Make(100'041));
    if (!is_first) SingleStep(false);
  }
  std::printf("%d\n", static_cast<int>(steps));
}

void Stacks() {
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setstacksize(&attributes, 1 << 20);
  pthread_t thread;
  ::pthread_create(&thread, &attributes, Buffer, nullptr);
  ::pthread_join(thread, nullptr);
  const auto exits = [](void*) -> void* {
    SayStack();
    ::pthread_exit(nullptr);
  };
  constexpr std::size_t kOwnBytes = 200'000;
  void* own = std::aligned_alloc(64, kOwnBytes);
  ::pthread_attr_setstack(&attributes, own, kOwnBytes);
  ::pthread_create(&thread, &attributes, exits, nullptr);
  ::pthread_join(thread, nullptr);
  ::pthread_create(&thread, nullptr, exits, nullptr);
  ::pthread_join(thread, nullptr);
  int result = 0;
  thrd_t of_c11;
  ::thrd_create(&of_c11, OfC11, &attributes);
  if (::thrd_join(of_c11, &result) != thrd_success || result != 11) std::abort();
}

// More at once than begin at once; says how many arenas malloc(3) has then.
void IdleThreads() {
  constexpr int kThreads = 8;
  pthread_barrier_t barrier;
  ::pthread_barrier_init(&barrier, nullptr, kThreads + 1);
  pthread_t threads[kThreads];
  for (pthread_t& thread : threads) {
    ::pthread_create(
        &thread, nullptr,
        [](void* all) -> void* {
          ::pthread_barrier_wait(static_cast<pthread_barrier_t*>(all));
          return nullptr;
        },
        &barrier);
  }
  ::pthread_barrier_wait(&barrier);
  for (const pthread_t thread : threads) ::pthread_join(thread, nullptr);
  ::malloc_info(0, stdout);
}

// Anywhere: a growth that there is no room for, one that is moved, and a part cut off; then what is
// no page is unmapped, and all of it.
void Moves() {
  constexpr std::size_t kBytes = 3 << 20;
  void* mapped = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mremap(mapped, kBytes, std::size_t{1} << 46, MREMAP_MAYMOVE) != MAP_FAILED) std::abort();
  void* wanted = mmap(nullptr, 5 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  void* moved = mremap(mapped, kBytes, 5 << 20, MREMAP_MAYMOVE | MREMAP_FIXED, wanted);
  if (moved != wanted) std::abort();
  if (mremap(moved, 5 << 20, 1 << 20, MREMAP_MAYMOVE) != moved) std::abort();
  if (munmap(static_cast<char*>(moved) + 1, 1 << 20) == 0 || errno != EINVAL) std::abort();
  if (munmap(moved, 1 << 20) != 0) std::abort();
}

// In place: a growth that there is no room for, and a part cut off.
void Remaps() {
  constexpr std::size_t kBytes = 3 << 20;
  void* mapped = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mremap(mapped, kBytes, std::size_t{1} << 46, 0) != MAP_FAILED) std::abort();
  if (mremap(mapped, kBytes, 1 << 20, 0) != mapped) std::abort();
}

}  // namespace

int main(int count, char** arguments) {
  const std::string_view what = arguments[1];
  if (what == "kinds") Kinds();
  if (what == "small" && count == 4) {
    Small(std::strtoul(arguments[2], nullptr, 10), std::strtoul(arguments[3], nullptr, 10));
  }
  if (what == "remaps") Remaps();
  if (what == "moves") Moves();
  if (what == "spill") Spill();
  if (what == "spill in each") SpillInEach();
  if (what == "spill elsewhere" && count == 3) SpillElsewhere(arguments[2]);
  if (what == "stacks") Stacks();
  if (what == "idle threads") IdleThreads();
  if (what == "crowd") Crowd(24, 10'000);
  if (what == "brief") Brief();
  if (what == "refused") Refused();
  if (what == "leaves") Leaves();
  if (what == "outlives" && count == 4) Outlives(std::atoi(arguments[2]), std::atoi(arguments[3]));
  if (what == "threads") Threads();
  if (what == "many") {
    for (int i = 0; i < 200'000; ++i) std::free(Make(5000));
  }
  if (what == "turns") {
    for (int i = 0; i < 100; ++i) {
      Left();
      Right();
    }
  }
  if (what == "twice") {
    void* made = Make(100'001);
    std::free(made);
    std::free(made);
  }
  if (what == "fork") Fork(arguments[0]);
  if (what == "spawn") Spawn(arguments[0]);
  if (what == "ends") Ends();
  if (what == "steps") Steps();
  if (what == "load") Load(std::span(arguments + 2, static_cast<std::size_t>(count - 2)));
  return 0;
}
