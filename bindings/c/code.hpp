// From a Status, or whatever was thrown, to a code and the thread's message: nothing crosses into C but these.
#pragma once

#include <inlay/core/status.hpp>
#include <inlay/core/text.hpp>

#include "bindings/c/inlay.h"

namespace inlay::c {

// Keeps the words for inlay_message.
inlay_code failed(StatusCode code, std::string_view words) noexcept;
// Of the exception that is being handled.
inlay_code failed_by_exception() noexcept;

template <class Body> inlay_code guarded(Body&& body) noexcept {
  try {
    const Status status = body();
    return status.ok() ? INLAY_OK : failed(status.code(), status.message());
  } catch (...) {
    return failed_by_exception();
  }
}

// The same refusal with what it is about in front: "rms_norm: ".
inline Status about(std::string_view subject, const Status& status) {
  return status.ok() ? Status() : Status(status.code(), Text(subject) + ": " + status.message());
}

}  // namespace inlay::c
