// The timeline of one core as a picture (SVG): a row for each queue that did something, from cycle 0 to the last.
//
//   full bars   work, coloured by the unit: transfers, matrix, vector
//   low bars    waits for a flag, a ring or the other cores
//
// Bars that a picture cannot keep apart are one: a page of it has a few thousand bars at most, whatever the log's
// length.
#pragma once

#include <filesystem>
#include <string>

#include "tile_machine/time/timing.hpp"

namespace inlay::npu {

std::string picture_svg(const EventLog& log, const Device& device, const Timeline& timeline, std::string_view title,
                        std::uint32_t core = 0);
Status write_picture(const std::filesystem::path& file, const std::string& svg);

}  // namespace inlay::npu
