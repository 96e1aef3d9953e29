#include <inlay/exec/buckets.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <string>

namespace inlay::exec {
namespace {

constexpr index max_length = 1 << 20, max_count = index{1} << 32;

Status wrong_line(index line, std::string_view text, const std::string& must) {
  return {StatusCode::invalid_argument, "lengths: line " + std::to_string(line) + " is \"" +
                                            std::string(text.substr(0, 40)) + "\"; it must be " + must};
}

std::string_view without_blanks(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

// A number at the front of `text`, which is cut off; false, if there is none in these bounds.
bool take_number(std::string_view& text, index max, index& number) {
  text = without_blanks(text);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 1 || number > max) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return text.empty() || text.front() == ' ' || text.front() == '\t';
}

}  // namespace

Expected<std::vector<LengthCount>> parse_lengths(std::string_view text) {
  std::map<index, index> counts;
  for (index line = 1; !text.empty(); ++line) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view whole = without_blanks(text.substr(0, std::min(text.find('#'), end)));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (whole.empty()) continue;
    std::string_view rest = whole;
    index length = 0, count = 1;
    const bool read = take_number(rest, max_length, length) && (rest.empty() || take_number(rest, max_count, count));
    if (!read || !rest.empty())
      return failure(wrong_line(line, whole, "a length of 1 to 2^20, and behind it how many steps had it, 1 to 2^32"));
    index& sum = counts[length];
    if (sum > max_count - count) return failure(wrong_line(line, whole, "of a length that 2^32 steps had at most"));
    sum += count;
  }
  if (counts.empty()) return failure(StatusCode::invalid_argument, "lengths: the file has none; it must have one");
  std::vector<LengthCount> lengths;
  for (const auto& [length, count] : counts) lengths.push_back({length, count});
  return lengths;
}

index ascend_max_buckets(const AscendPlanLimits& limits) {
  const index pieces = pieces_of(limits.layers);
  if (limits.unfolded) {
    const index factor = 1 + limits.domains;
    return std::max<index>(0, (limits.streams - factor * pieces) / (pieces * factor));
  }
  return std::max<index>(0, (limits.streams - 40 * limits.domains) / (pieces * (1 + 2 * limits.domains)));
}

std::vector<index> default_buckets(index largest) {
  std::vector<index> sizes;
  const auto add = [&](index size) {
    if (size <= largest) sizes.push_back(size);
  };
  for (const index size : {1, 2, 4}) add(size);
  for (index size = 8; size < 256; size += 8) add(size);
  for (index size = 256; size <= largest; size += 16) add(size);
  return sizes;
}

std::vector<index> sampled_buckets(std::span<const index> sizes, index count) {
  const auto all = static_cast<index>(sizes.size());
  if (count >= all) return {sizes.begin(), sizes.end()};
  if (count <= 0) return {};
  if (count == 1) return {sizes.back()};
  std::vector<index> sampled;
  const double step = static_cast<double>(all - 1) / static_cast<double>(count - 1);
  for (index i = 0; i < count; ++i)  // Python's round: halves to the even
    sampled.push_back(sizes[static_cast<std::size_t>(std::nearbyint(static_cast<double>(i) * step))]);
  return sampled;
}

// Some bucket ends at a length, or it could shrink to one: so buckets are lengths. With the lengths l in ascending
// order and n of each, and N and T the sums of n and of n l up to one,
//
//   padding of i < k <= j in bucket l[j]:  l[j] (N[j] - N[i]) - (T[j] - T[i])
//   least[b][j] = min over i of  least[b - 1][i] + that
std::vector<index> best_buckets(std::span<const LengthCount> lengths, index count, index largest) {
  std::vector<index> length{0};
  std::vector<double> steps{0}, tokens{0};  // sums; doubles are exact up to 2^53
  for (const LengthCount& each : lengths) {
    if (each.length > largest) break;
    length.push_back(each.length);
    steps.push_back(steps.back() + static_cast<double>(each.count));
    tokens.push_back(tokens.back() + static_cast<double>(each.count) * static_cast<double>(each.length));
  }
  const std::size_t kinds = length.size() - 1;
  if (kinds == 0 || count <= 0) return {};
  const std::size_t buckets = std::min<std::size_t>(static_cast<std::size_t>(count), kinds);
  std::vector<double> least(kinds + 1, std::numeric_limits<double>::infinity()), before;
  least[0] = 0;
  std::vector<std::vector<std::size_t>> from(buckets, std::vector<std::size_t>(kinds + 1, 0));
  for (std::size_t b = 0; b < buckets; ++b) {
    before = least;
    std::fill(least.begin(), least.end(), std::numeric_limits<double>::infinity());
    for (std::size_t j = b + 1; j <= kinds; ++j)
      for (std::size_t i = b; i < j; ++i) {
        const double padding =
            before[i] + static_cast<double>(length[j]) * (steps[j] - steps[i]) - (tokens[j] - tokens[i]);
        if (padding < least[j]) least[j] = padding, from[b][j] = i;
      }
  }
  std::vector<index> best(buckets);
  for (std::size_t b = buckets, j = kinds; b-- > 0; j = from[b][j]) best[b] = length[j];
  return best;
}

BucketUse use_of(std::span<const index> buckets, std::span<const LengthCount> lengths) {
  BucketUse use;
  for (const LengthCount& each : lengths) {
    use.steps += each.count;
    const auto bucket = std::lower_bound(buckets.begin(), buckets.end(), each.length);
    if (bucket == buckets.end()) {
      use.eager_steps += each.count;
      continue;
    }
    use.tokens += each.count * each.length;
    use.padding += each.count * (*bucket - each.length);
  }
  return use;
}

}  // namespace inlay::exec
