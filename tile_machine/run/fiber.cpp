#include "tile_machine/run/fiber.hpp"

#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include <inlay/core/float_modes.hpp>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define INLAY_FIBER_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define INLAY_FIBER_TSAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define INLAY_FIBER_ASAN 1
#endif
#if defined(__SANITIZE_THREAD__)
#define INLAY_FIBER_TSAN 1
#endif

#if defined(INLAY_FIBER_ASAN)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(INLAY_FIBER_TSAN)
#include <sanitizer/tsan_interface.h>
#endif

namespace inlay::npu {

namespace {

constexpr std::size_t stack_bytes = std::size_t{1} << 20;  // touched pages only become memory

// AddressSanitizer follows the stack pointer: it wants to know which stack comes next, and that we came.
void leave_to([[maybe_unused]] void** kept, [[maybe_unused]] const void* bottom, [[maybe_unused]] std::size_t bytes) {
#if defined(INLAY_FIBER_ASAN)
  __sanitizer_start_switch_fiber(kept, bottom, bytes);
#endif
}
void arrive([[maybe_unused]] void* kept, [[maybe_unused]] const void** bottom, [[maybe_unused]] std::size_t* bytes) {
#if defined(INLAY_FIBER_ASAN)
  __sanitizer_finish_switch_fiber(kept, bottom, bytes);
#endif
}

}  // namespace

struct Fiber::State {
  std::function<void()> body;
  ucontext_t inside{}, outside{};
  std::byte* mapping = nullptr;  // a guard page, then the stack
  std::size_t guard = 0;
  bool done = false, threw = false;
  void *inside_kept = nullptr, *outside_kept = nullptr;  // ASan's fake stacks
  const void* outside_bottom = nullptr;
  std::size_t outside_bytes = 0;
  void *inside_thread = nullptr, *outside_thread = nullptr;  // TSan's

  std::byte* stack() const { return mapping + guard; }
  void prepare() {
    inside.uc_stack.ss_sp = stack();
    inside.uc_stack.ss_size = stack_bytes;
    const auto address = reinterpret_cast<std::uintptr_t>(this);
    makecontext(&inside, reinterpret_cast<void (*)()>(&State::enter), 2, static_cast<unsigned>(address >> 32),
                static_cast<unsigned>(address));
#if defined(INLAY_FIBER_TSAN)
    inside_thread = __tsan_create_fiber(0);
#endif
  }
  void switch_thread([[maybe_unused]] void* to) {
#if defined(INLAY_FIBER_TSAN)
    __tsan_switch_to_fiber(to, 0);
#endif
  }
  void run() {
    arrive(nullptr, &outside_bottom, &outside_bytes);
    const fp::NoFlushing device;  // a stack is kept, and with it the mode of the thread that made it
    try {
      body();
    } catch (...) {
      threw = true;
    }
    done = true;
    leave_to(nullptr, outside_bottom, outside_bytes);
    switch_thread(outside_thread);
    setcontext(&outside);
  }
  // makecontext passes ints only.
  static void enter(unsigned high, unsigned low) {
    reinterpret_cast<State*>(static_cast<std::uintptr_t>(high) << 32 | low)->run();
  }
};

Fiber::Fiber(std::function<void()> body) : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.body = std::move(body);
  s.guard = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* memory = mmap(nullptr, s.guard + stack_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return;
  s.mapping = static_cast<std::byte*>(memory);
  if (mprotect(s.stack(), stack_bytes, PROT_READ | PROT_WRITE) != 0 || getcontext(&s.inside) != 0) {
    munmap(s.mapping, s.guard + stack_bytes);
    s.mapping = nullptr;
    return;
  }
  s.prepare();
}

void Fiber::restart(std::function<void()> body) {
  State& s = *state_;
  s.body = std::move(body);
  s.done = s.threw = false;
#if defined(INLAY_FIBER_TSAN)
  __tsan_destroy_fiber(s.inside_thread);
#endif
  s.prepare();
}

Fiber::~Fiber() {
  if (state_->mapping == nullptr) return;
#if defined(INLAY_FIBER_TSAN)
  __tsan_destroy_fiber(state_->inside_thread);
#endif
  munmap(state_->mapping, state_->guard + stack_bytes);
}

bool Fiber::started() const { return state_->mapping != nullptr; }
bool Fiber::done() const { return state_->done; }
bool Fiber::threw() const { return state_->threw; }

void Fiber::resume() {
  State& s = *state_;
#if defined(INLAY_FIBER_TSAN)
  s.outside_thread = __tsan_get_current_fiber();
#endif
  leave_to(&s.outside_kept, s.stack(), stack_bytes);
  s.switch_thread(s.inside_thread);
  swapcontext(&s.outside, &s.inside);
  arrive(s.outside_kept, nullptr, nullptr);
}

void Fiber::yield() {
  State& s = *state_;
  leave_to(&s.inside_kept, s.outside_bottom, s.outside_bytes);
  s.switch_thread(s.outside_thread);
  swapcontext(&s.inside, &s.outside);
  arrive(s.inside_kept, &s.outside_bottom, &s.outside_bytes);
}

}  // namespace inlay::npu
