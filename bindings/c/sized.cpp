#include "bindings/c/sized.hpp"

namespace inlay::c {

namespace {

// A struct of so many bytes was made by no header: its size was forgotten.
constexpr std::size_t largest = 1 << 16;

}  // namespace

Status check_size(const char* name, std::size_t given, std::initializer_list<Member> members) {
  const auto wrong = [&](const Text& demand) {
    return invalid(Text(name) + ".size is " + number(given) + "; " + demand);
  };
  const std::size_t known = members.end()[-1].end;
  if (given < sizeof(std::size_t) || given > largest)
    return wrong("it must be sizeof(" + Text(name) + "), here " + number(known));
  for (const Member& member : members)
    if (given > member.begin && given < member.end)
      return wrong("it must not end within " + Text(member.name) + ", bytes " + number(member.begin) + " to " +
                   number(member.end));
  return {};
}

Status check_unknown(const char* name, const void* given, std::size_t size, std::size_t known) {
  const auto* const bytes = static_cast<const unsigned char*>(given);
  for (std::size_t i = known; i < size; ++i)
    if (bytes[i] != 0)
      return {StatusCode::unsupported, Text(name) + " has byte " + number(i) + " set, and this library (ABI " +
                                           number(INLAY_ABI) + ") knows " + number(known) +
                                           "; what it does not know must be zero"};
  return {};
}

}  // namespace inlay::c
