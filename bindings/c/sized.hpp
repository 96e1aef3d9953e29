// Structs that begin with their size: a caller may have been compiled with an older or a newer inlay.h.
#pragma once

#include <cstddef>
#include <cstring>
#include <initializer_list>

#include <inlay/core/status.hpp>
#include <inlay/core/text.hpp>

#include "bindings/c/inlay.h"

namespace inlay::c {

// Where a member lies.
struct Member {
  const char* name;
  std::size_t begin, end;
};
#define INLAY_MEMBER(type, name) \
  inlay::c::Member { #name, offsetof(type, name), offsetof(type, name) + sizeof(type::name) }

// What is wrong with a size that `given` bytes of the struct `name` have.
Status check_size(const char* name, std::size_t given, std::initializer_list<Member> members);
// Is all that lies behind the first `known` bytes zero?
Status check_unknown(const char* name, const void* given, std::size_t size, std::size_t known);

// What the caller gave, over defaults.
template <class T>
Status read_sized(const char* name, const T* given, T& result, std::initializer_list<Member> members) {
  if (given == nullptr) return {};
  std::size_t size;
  std::memcpy(&size, given, sizeof size);
  if (Status status = check_size(name, size, members); !status.ok()) return status;
  if (Status status = check_unknown(name, given, size, sizeof(T)); !status.ok()) return status;
  std::memcpy(static_cast<void*>(&result), given, size < sizeof(T) ? size : sizeof(T));
  result.size = sizeof(T);
  return {};
}

// What the caller asked for, as far as his struct goes; zero behind ours. His size stays.
template <class T> Status write_sized(const char* name, T value, T* result, std::initializer_list<Member> members) {
  if (result == nullptr) return invalid(Text(name) + " is null; it must be a struct with its size");
  std::size_t size;
  std::memcpy(&size, result, sizeof size);
  if (Status status = check_size(name, size, members); !status.ok()) return status;
  value.size = size;
  std::memcpy(static_cast<void*>(result), &value, size < sizeof(T) ? size : sizeof(T));
  if (size > sizeof(T)) std::memset(reinterpret_cast<char*>(result) + sizeof(T), 0, size - sizeof(T));
  return {};
}

}  // namespace inlay::c
