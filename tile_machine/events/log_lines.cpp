#include <algorithm>
#include <fstream>
#include <limits>

#include "inlay/core/quote.hpp"
#include "tile_machine/events/log_reader.hpp"
#include "tile_machine/events/sites.hpp"

namespace inlay::npu {
namespace {

constexpr std::uint64_t version = 1;
constexpr std::size_t most_bytes_of_a_line = 256 * 1024;
constexpr std::size_t most_entries = std::size_t{1} << 25;  // as many as a run of the machine (Options::entries)
constexpr files::JsonLimits limits{.bytes = most_bytes_of_a_line, .depth = 4, .values = 16 * 1024};

constexpr std::string_view first_line = R"({"inlay_npu_log": 1, "kernel": ".."})";
constexpr std::string_view common[] = {"event", "core", "stream", "verb", "file", "line", "column"};

}  // namespace

void LogReader::fields(const Node& root, Words required, Words optional) {
  std::vector<std::string_view> keys(required.begin(), required.end());
  keys.insert(keys.end(), optional.begin(), optional.end());
  some_of(root, keys);
  for (const std::string_view key : required)
    if (ok() && !has(root, key)) refuse(child(root.pointer, key), "is missing; the keys here are " + listed(keys));
}

std::uint64_t LogReader::number(const Node& root, std::string_view key, std::uint64_t low, std::uint64_t high,
                                std::uint64_t otherwise) {
  if (!has(root, key)) return otherwise;
  const Node node = get(root, key);
  const auto* value = node.json->get_ptr<const nlohmann::json::number_unsigned_t*>();
  if (value != nullptr && *value >= low && *value <= high) return *value;
  refuse_value(node, low == high ? std::to_string(low)
                                 : "a whole number from " + std::to_string(low) + " to " + std::to_string(high));
  return low;
}

const char* LogReader::text_of(const Node& root, std::string_view key, const char* otherwise) {
  if (!has(root, key)) return otherwise;
  std::string value = text(get(root, key), longest_text);
  // What is shown to a person on one line.
  if (ok() && !std::all_of(value.begin(), value.end(), [](unsigned char c) { return c >= ' ' && c != 0x7f; }))
    refuse_value(get(root, key), "without control characters");
  return file_.texts->insert(std::move(value)).first->c_str();
}

SourceLocation LogReader::site(const Node& root) {
  constexpr std::uint64_t last = std::numeric_limits<std::uint32_t>::max();
  const char* const file = text_of(root, "file", "");
  const auto line = static_cast<std::uint_least32_t>(number(root, "line", 0, last, 0)),
             column = static_cast<std::uint_least32_t>(number(root, "column", 0, last, 0));
  return SourceLocation::at(file, line, column);
}

// {"inlay_npu_log": 1, "kernel": "softmax", "cores": 1, "streams": ["AIV"]}
void LogReader::header(const Node& root) {
  if (!root.json->is_object() || !root.json->contains("inlay_npu_log"))
    return refuse("/inlay_npu_log", "is missing; the first line must be " + std::string(first_line));
  fields(root, std::initializer_list<std::string_view>{"inlay_npu_log", "kernel"},
         std::initializer_list<std::string_view>{"cores", "streams"});
  number(root, "inlay_npu_log", version, version, version);
  file_.kernel = text_of(root, "kernel", "");
  log_.cores = static_cast<std::uint16_t>(number(root, "cores", 1, device_.cores, 1));
  streams(root);
}

// Those of the device, unless the log names some of them.
void LogReader::streams(const Node& root) {
  log_.streams.clear();
  if (!has(root, "streams")) {
    for (std::size_t kind = 0; kind < device_.streams.size(); ++kind)
      log_.streams.insert(log_.streams.end(), device_.streams[kind].count, static_cast<std::uint8_t>(kind));
    if (log_.streams.empty()) log_.streams = {0};
    return;
  }
  const Node node = get(root, "streams");
  std::vector<std::string_view> known;
  std::size_t most = 0;
  for (const Stream& stream : device_.streams) {
    known.push_back(stream.name);
    most += stream.count;
  }
  if (known.empty()) return refuse(node.pointer, "is there: " + device_.name + " has one stream, which has no name");
  list(node, most, [&](const Node& each) {
    const auto kind = static_cast<std::uint8_t>(choice(each, known));
    log_.streams.push_back(kind);
    if (ok() && std::count(log_.streams.begin(), log_.streams.end(), kind) > device_.streams[kind].count)
      refuse_value(
          each, "named at most " + std::to_string(device_.streams[kind].count) + " times: a core has no more of them");
  });
}

void LogReader::event(const Node& root) {
  if (!root.json->is_object()) return refuse_value(root, "an object");
  if (has(root, "inlay_npu_log"))
    return refuse("/inlay_npu_log", "stands in a second header, of version " +
                                        describe(root.json->at("inlay_npu_log")) + "; a log has one, its first line");
  std::vector<std::string_view> words;
  for (const Form& form : forms()) words.push_back(form.name);
  if (!has(root, "event")) return refuse("/event", "is missing; it must be one of " + listed(words));
  if (ended_) return refuse("/event", "is behind the event end, which must be the last");
  const auto which = static_cast<std::size_t>(choice(get(root, "event"), words));
  if (!ok()) return;
  const Form& form = forms()[which];

  Entry entry;
  entry.event = form.event;
  entry.site = site(root);
  if (ok() && *entry.site.file_name() != '\0') place_ = printable(line_of(entry.site));
  const Words own = form.optional;
  std::vector<std::string_view> optional(own.begin(), own.end());
  optional.insert(optional.end(), std::begin(common), std::end(common));
  fields(root, form.required, optional);
  entry.verb = text_of(root, "verb", form.name.data());
  entry.core = static_cast<std::uint16_t>(number(root, "core", 0, log_.cores - 1u, 0));
  entry.stream = static_cast<std::uint8_t>(number(root, "stream", 0, log_.streams.size() - 1, 0));
  entry.footprints = static_cast<std::uint32_t>(log_.footprints.size());
  (this->*form.read)(root, entry);
  entry.footprint_count = static_cast<std::uint32_t>(log_.footprints.size() - entry.footprints);
  if (ok() && form.is_entry) log_.entries.push_back(entry);
  if (ok() && log_.entries.size() > most_entries)
    refuse("/event", "is that of one entry more than " + std::to_string(most_entries) + ", the most there may be");
  ++events_;
}

Status LogReader::line(std::string_view text) {
  ++lines_;
  place_.clear();
  const auto json = files::parse_strict_json(text, limits);
  if (!json) return here(json.error().message());
  const Node root{&*json, ""};
  lines_ == 1 ? header(root) : event(root);
  return ok() ? Status() : here(take_status().message());
}

Status LogReader::end() {
  ++lines_;
  place_.clear();
  if (lines_ == 1) return here("it is missing, as the text is empty; it must be " + std::string(first_line));
  return ended_ ? Status() : here("it is missing; the last line must be the event end, or some of the log may be lost");
}

Status LogReader::here(std::string_view what) const {
  const std::string place = place_.empty() ? "" : " (" + place_ + ")";
  return {StatusCode::corrupt_data, "line " + std::to_string(lines_) + place + ": " + std::string(what)};
}

tl::expected<LogFile, Status> read_log(std::istream& text, const Device& device) {
  LogFile file{{}, {}, std::make_unique<std::unordered_set<std::string>>()};
  LogReader reader(device, file);
  std::string line(most_bytes_of_a_line + 2, '\0');  // one more than there may be, and getline's zero
  while (text.getline(line.data(), static_cast<std::streamsize>(line.size())) || text.gcount() > 0) {
    auto bytes = static_cast<std::size_t>(text.gcount());
    if (text && !text.eof()) --bytes;  // the end of the line, which is taken and not kept
    if (Status status = reader.line(std::string_view(line).substr(0, bytes)); !status.ok())
      return tl::unexpected<Status>(std::move(status));
  }
  if (Status status = reader.end(); !status.ok()) return tl::unexpected<Status>(std::move(status));
  return file;
}

tl::expected<LogFile, Status> load_log(const std::filesystem::path& path, const Device& device) {
  std::error_code error;
  std::ifstream text(path, std::ios::binary);
  if (std::filesystem::is_directory(path, error) || !text)
    return failure(StatusCode::not_found, path.string() + " cannot be read");
  auto file = read_log(text, device);
  if (!file) return failure(file.error().code(), path.string() + ": " + std::string(file.error().message()));
  return file;
}

}  // namespace inlay::npu
