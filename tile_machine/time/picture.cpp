#include "tile_machine/time/picture.hpp"

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>

#include "files/whole_file.hpp"

namespace inlay::npu {

namespace {

constexpr double left = 90, width = 1000, row = 24, top = 34, bar = 16;

struct Kind {
  const char *what, *colour;
};
constexpr std::array<Kind, 5> kinds{{{"transfer", "#4477aa"},
                                     {"matrix", "#cc6644"},
                                     {"vector", "#449966"},
                                     {"scalar", "#777777"},
                                     {"wait", "#ddcc77"}}};
constexpr std::size_t wait_kind = 4;

std::size_t kind_of(const Entry& entry) {
  if (entry.event != Event::work) return wait_kind;
  if (entry.work.unit == Unit::dma) return 0;
  return entry.work.unit == Unit::matrix ? 1 : entry.work.unit == Unit::vector ? 2 : 3;
}

// Text in which <, > and & stand for themselves.
std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) result += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  return result;
}

class Picture {
 public:
  Picture(const EventLog& log, const Device& device, const Timeline& timeline, std::uint32_t core)
      : log_(log), device_(device), time_(timeline), core_(core) {}

  std::string draw(std::string_view title) {
    const std::uint32_t queues = time_.order.queues() * time_.order.streams_of_a_core();
    std::vector<std::uint32_t> lanes;
    for (std::uint32_t lane = core_ * queues; lane < (core_ + 1) * queues; ++lane)
      if (time_.lanes[lane].entries > 0) lanes.push_back(lane);
    const double height = top + row * static_cast<double>(lanes.size()) + 44;
    add("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" font-family=\"sans-serif\" "
        "font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n",
        left + width + 20, height);
    add("<text x=\"%.0f\" y=\"20\" font-size=\"14\">%s: core %u of %u, %.0f cycles</text>\n", left,
        escaped(title).c_str(), core_, time_.order.cores(), to_cycles(time_.makespan));
    for (std::size_t i = 0; i < lanes.size(); ++i) draw(lanes[i], top + row * static_cast<double>(i));
    legend(height - 30);
    add("</svg>\n");
    return std::move(svg_);
  }

 private:
  void add(const char* form, ...) __attribute__((format(printf, 2, 3))) {
    char line[512];
    std::va_list values;
    va_start(values, form);
    std::vsnprintf(line, sizeof(line), form, values);
    va_end(values);
    svg_ += line;
  }

  double at(Tick tick) const {
    return left + width * static_cast<double>(tick) / static_cast<double>(std::max<Tick>(1, time_.makespan));
  }

  void draw(std::uint32_t lane, double y) {
    const LaneTime& of = time_.lanes[lane];
    add("<text x=\"%.0f\" y=\"%.0f\" text-anchor=\"end\">%s</text>\n", left - 8, y + bar - 3,
        escaped(queue_name(device_, log_.streams, of.stream, of.queue)).c_str());
    add("<path d=\"M%.0f %.1fh%.0f\" stroke=\"#cccccc\"/>\n", left, y + bar / 2, width);
    std::array<std::string, kinds.size()> paths;
    std::array<double, kinds.size()> begin{}, end{};
    const auto flush = [&](std::size_t kind) {
      if (end[kind] <= begin[kind]) return;
      char text[96];
      const double low = kind == wait_kind ? bar - 6 : 0;
      std::snprintf(text, sizeof(text), "M%.1f %.0fh%.1fv%.0fH%.1fz", begin[kind], y + low,
                    std::max(0.1, end[kind] - begin[kind]), bar - low, begin[kind]);
      paths[kind] += text;
    };
    Tick free = 0;
    for (const std::uint32_t index : time_.order.queue(lane)) {
      const Entry& entry = log_.entries[index];
      const Span& span = time_.spans[index];
      const bool stalls = entry.event != Event::work && !sets(entry.event);
      const double from = at(std::max(free, stalls ? span.issued : span.started)), to = at(span.ended);
      free = span.ended;
      const std::size_t kind = kind_of(entry);
      const bool shown = entry.event != Event::allocate && entry.event != Event::release && !sets(entry.event);
      constexpr double apart = 0.3;  // of the picture's units
      if (!shown || to <= from) continue;
      if (end[kind] > 0 && from - end[kind] < apart) {
        end[kind] = to;
        continue;
      }
      flush(kind);
      begin[kind] = from, end[kind] = to;
    }
    for (const std::size_t kind : {wait_kind, std::size_t{3}, std::size_t{0}, std::size_t{1}, std::size_t{2}}) {
      flush(kind);
      if (paths[kind].empty()) continue;
      svg_.append("<path fill=\"").append(kinds[kind].colour).append("\" d=\"").append(paths[kind]).append("\"/>\n");
    }
  }

  void legend(double y) {
    double x = left;
    for (const Kind& kind : kinds) {
      add("<rect x=\"%.0f\" y=\"%.0f\" width=\"12\" height=\"12\" fill=\"%s\"/><text x=\"%.0f\" y=\"%.0f\">%s</text>\n",
          x, y, kind.colour, x + 18, y + 11, kind.what);
      x += 90;
    }
    for (int quarter = 0; quarter <= 4; ++quarter)
      add("<text x=\"%.0f\" y=\"%.0f\" text-anchor=\"%s\" fill=\"#777777\">%.0f</text>\n", left + width / 4 * quarter,
          y - 6,
          quarter == 0   ? "start"
          : quarter == 4 ? "end"
                         : "middle",
          to_cycles(time_.makespan) / 4 * quarter);
  }

  const EventLog& log_;
  const Device& device_;
  const Timeline& time_;
  std::uint32_t core_;
  std::string svg_;
};

}  // namespace

std::string picture_svg(const EventLog& log, const Device& device, const Timeline& timeline, std::string_view title,
                        std::uint32_t core) {
  return Picture(log, device, timeline, core).draw(title);
}

Status write_picture(const std::filesystem::path& file, const std::string& svg) {
  return files::write_whole(file.string(), svg);
}

}  // namespace inlay::npu
