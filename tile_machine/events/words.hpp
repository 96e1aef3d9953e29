// How messages name an entry of a log, and bytes of its memories.
#pragma once

#include <cstdint>
#include <string>

#include "tile_machine/events/report.hpp"

namespace inlay::npu {

Place place_of(const EventLog& log, std::uint32_t entry);  // of no_entry: nowhere
// "gemm.hpp:42 load_a (core 0, feed)"
std::string entry_words(const EventLog& log, const Device& device, std::uint32_t entry);
// "byte 128 of 'a' in L1": `byte` counts from the start of the memory.
std::string byte_words(const EventLog& log, const Device& device, std::uint32_t buffer, std::uint64_t byte);

}  // namespace inlay::npu
