#include "bindings/c/code.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <new>

#include <inlay/core/version.hpp>

namespace inlay::c {

namespace {

// No std::string: its destructor at a thread's end would keep the library in memory behind dlclose().
constexpr std::size_t longest = 2048;
thread_local char message[longest];

static_assert(INLAY_OK == static_cast<int>(StatusCode::ok) &&
              INLAY_INVALID_ARGUMENT == static_cast<int>(StatusCode::invalid_argument) &&
              INLAY_UNSUPPORTED == static_cast<int>(StatusCode::unsupported) &&
              INLAY_NOT_FOUND == static_cast<int>(StatusCode::not_found) &&
              INLAY_CORRUPT_DATA == static_cast<int>(StatusCode::corrupt_data) &&
              INLAY_OUT_OF_MEMORY == static_cast<int>(StatusCode::out_of_memory) &&
              INLAY_INTERNAL == static_cast<int>(StatusCode::internal));

}  // namespace

inlay_code failed(StatusCode code, std::string_view words) noexcept {
  constexpr std::string_view more = "...";
  const bool cut = words.size() >= longest;
  const std::size_t size = cut ? longest - 1 - more.size() : words.size();
  std::memcpy(message, words.data(), size);
  if (cut) std::memcpy(message + size, more.data(), more.size());
  message[size + (cut ? more.size() : 0)] = 0;
  return static_cast<inlay_code>(code);
}

inlay_code failed_by_exception() noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return failed(StatusCode::out_of_memory, "there is not as much memory as the call needs");
  } catch (const std::exception& error) {
    return failed(StatusCode::internal, error.what());
  } catch (...) {
    return failed(StatusCode::internal, "something was thrown that is no std::exception");
  }
}

}  // namespace inlay::c

const char* inlay_message(void) { return inlay::c::message; }
const char* inlay_version(void) { return INLAY_VERSION; }
int32_t inlay_abi(void) { return INLAY_ABI; }
