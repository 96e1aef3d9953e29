// How many threads a process should have: its affinity, and what cgroups grant.
#include "cpu_kernels/threads/allowed.hpp"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <limits>
#include <thread>

#include <inlay/core/threads.hpp>

// OpenMP's runtime, where the program has one. OMP_PROC_BIND makes it bind the thread that loads it to one of its
// places, before main(): all places together are what the process was given.
extern "C" {
[[gnu::weak]] int omp_get_proc_bind();
[[gnu::weak]] int omp_get_num_places();
[[gnu::weak]] int omp_get_place_num_procs(int place);
[[gnu::weak]] void omp_get_place_proc_ids(int place, int* ids);
}

namespace inlay {

namespace {

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = text.find(at, begin) == text.npos ? text.size() : text.find(at, begin);
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

bool holds(std::string_view list, std::string_view word) {
  for (std::string_view each : split(list, ','))
    if (each == word) return true;
  return false;
}

// A whole number that begins the text, followed by nothing or white space.
std::optional<std::int64_t> number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || (end != text.data() + text.size() && *end != ' ' && *end != '\n')) return {};
  return value;
}

// quota microseconds of processor time every `period` of the clock.
std::optional<int> processors(std::optional<std::int64_t> quota, std::optional<std::int64_t> period) {
  if (!quota || !period || *quota <= 0 || *period <= 0) return {};
  const std::int64_t count = (*quota - 1) / *period + 1;
  return count < Threads::most ? static_cast<int>(count) : Threads::most;
}

// Version 2, one file "max 100000" or "150000 100000"; version 1, two: -1 where there is no limit.
std::optional<int> processors_of_group(const ReadFile& read, const std::string& directory, bool version2) {
  if (!version2)
    return processors(number(read(directory + "/cpu.cfs_quota_us")), number(read(directory + "/cpu.cfs_period_us")));
  const std::string text = read(directory + "/cpu.max");
  const std::size_t space = text.find(' ');
  return processors(number(text), number(space == text.npos ? "" : std::string_view(text).substr(space + 1)));
}

// From /proc/self/cgroup, lines "3:cpu,cpuacct:/path" and "0::/path": the path in that hierarchy.
std::optional<std::string_view> path_of_group(std::string_view groups, bool version2) {
  for (std::string_view line : split(groups, '\n')) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    if (version2 ? line.substr(0, first) == "0" && controllers.empty() : holds(controllers, "cpu"))
      return line.substr(second + 1);
  }
  return {};
}

// As /proc/self/mountinfo writes it: what would end a field is "\040" and the like, in octal.
std::string unescaped(std::string_view field) {
  std::string text;
  for (std::size_t i = 0; i < field.size(); ++i) {
    const std::string_view code = field.substr(i, 4);
    const bool octal = code.size() == 4 && code[0] == '\\' && code.find_first_not_of("01234567", 1) == code.npos;
    text += octal ? static_cast<char>((code[1] - '0') * 64 + (code[2] - '0') * 8 + (code[3] - '0')) : field[i];
    if (octal) i += 3;
  }
  return text;
}

// What of the path lies below the root; nothing where it lies elsewhere.
std::string_view below_root(std::string_view path, std::string_view root) {
  if (root == "/") return path;
  if (!path.starts_with(root)) return {};
  const std::string_view rest = path.substr(root.size());
  return rest.empty() || rest[0] == '/' ? rest : std::string_view();
}

std::string contents(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

// /proc/self/mountinfo: "36 25 0:30 ROOT MOUNT OPTIONS... - TYPE SOURCE SUPER_OPTIONS". ROOT is the group that is
// mounted: a container sees its own at MOUNT, and its path begins with ROOT or, in a namespace of its own, at /.
std::optional<int> cgroup_processors(const ReadFile& read) {
  const std::string groups = read("/proc/self/cgroup"), mounts = read("/proc/self/mountinfo");
  std::optional<int> least;
  for (std::string_view line : split(mounts, '\n')) {
    const std::size_t dash = line.find(" - ");
    if (dash == line.npos) continue;
    const auto before = split(line.substr(0, dash), ' '), after = split(line.substr(dash + 3), ' ');
    if (before.size() < 5 || after.size() < 3) continue;
    const bool version2 = after[0] == "cgroup2";
    if (!version2 && !(after[0] == "cgroup" && holds(after[2], "cpu"))) continue;
    const auto path = path_of_group(groups, version2);
    if (!path) continue;
    const std::string mount = unescaped(before[4]);
    std::string below(below_root(*path, unescaped(before[3])));
    for (;; below.resize(below.rfind('/'))) {
      while (!below.empty() && below.back() == '/') below.pop_back();
      const auto granted = processors_of_group(read, mount + below, version2);
      if (granted && (!least || *granted < *least)) least = granted;
      if (below.find('/') == below.npos) break;
    }
  }
  return least;
}

std::vector<int> processors_of_thread() {
  std::vector<int> list;
#if defined(__linux__)
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) == 0)
    for (int i = 0; i < CPU_SETSIZE; ++i)
      if (CPU_ISSET(i, &set)) list.push_back(i);
#endif
  return list;
}

std::vector<int> allowed_processors() {
  std::vector<int> own = processors_of_thread(), places;
  if (omp_get_proc_bind == nullptr || omp_get_proc_bind() == 0) return own;
  bool bound = false;  // to one of the places
  for (int place = 0; place < omp_get_num_places(); ++place) {
    std::vector<int> ids(static_cast<std::size_t>(omp_get_place_num_procs(place)));
    omp_get_place_proc_ids(place, ids.data());
    std::sort(ids.begin(), ids.end());
    bound = bound || ids == own;
    places.insert(places.end(), ids.begin(), ids.end());
  }
  if (!bound) return own;
  std::sort(places.begin(), places.end());
  places.erase(std::unique(places.begin(), places.end()), places.end());
  return places;
}

int default_width() {
  if (const char* asked = std::getenv("INLAY_THREADS"))
    if (const auto width = number(asked); width && *width >= 1 && *width <= Threads::most)
      return static_cast<int>(*width);
  std::size_t allowed = allowed_processors().size();
  if (allowed == 0) allowed = std::thread::hardware_concurrency();
  const int width = allowed < 1 ? 1 : allowed < Threads::most ? static_cast<int>(allowed) : Threads::most;
  const int granted = cgroup_processors(contents).value_or(width);
  return granted < width ? granted : width;
}

}  // namespace inlay
