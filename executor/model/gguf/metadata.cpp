#include <inlay/core/quote.hpp>

#include "executor/model/gguf/metadata.hpp"

namespace inlay::exec {

namespace {

bool integer_at(const GgufValue& value, GgufType type, std::uint64_t i, index& out) {
  const auto k = static_cast<std::size_t>(i);
  switch (type) {
    case GgufType::u8: out = value.read<std::uint8_t>(k); return true;
    case GgufType::i8: out = value.read<std::int8_t>(k); return true;
    case GgufType::u16: out = value.read<std::uint16_t>(k); return true;
    case GgufType::i16: out = value.read<std::int16_t>(k); return true;
    case GgufType::u32: out = value.read<std::uint32_t>(k); return true;
    case GgufType::i32: out = value.read<std::int32_t>(k); return true;
    case GgufType::u64: out = static_cast<index>(value.read<std::uint64_t>(k)); return true;  // a huge one is negative
    case GgufType::i64: out = value.read<std::int64_t>(k); return true;
    default: return false;
  }
}

}  // namespace

void GgufMetadata::fail(StatusCode code, const std::string& what) {
  if (status_) status_ = Status(code, file_.origin() + ": " + what);
}

bool GgufMetadata::integer(const std::string& key, index& out, bool required) {
  const GgufValue* value = lookup(key, required);
  if (!value) return false;
  if (value->type != GgufType::array) return integer_at(*value, value->type, 0, out) || wrong(key, "integer");
  index first = 0;
  for (std::uint64_t i = 0; i < value->count; ++i) {
    index each = 0;
    if (!integer_at(*value, value->element, i, each)) return wrong(key, "integer");
    if (i == 0) first = each;
    if (each != first) {
      fail(StatusCode::unsupported, "key " + quote(key) + " differs between layers");
      return false;
    }
  }
  if (value->count == 0) return wrong(key, "integer");
  out = first;
  return true;
}

bool GgufMetadata::per_layer(const std::string& key, index layers, std::vector<index>& out, bool required) {
  const GgufValue* value = lookup(key, required);
  if (!value) return false;
  const bool array = value->type == GgufType::array;
  const GgufType type = array ? value->element : value->type;
  if (array && value->count != static_cast<std::uint64_t>(layers)) {
    fail(StatusCode::corrupt_data, "key " + quote(key) + " has " + std::to_string(value->count) +
                                       " entries; it must have one for each of the " + std::to_string(layers) +
                                       " layers");
    return false;
  }
  if (array && value->count == 0) return wrong(key, "integer");
  std::vector<index> all(array ? static_cast<std::size_t>(layers) : 1);
  for (std::size_t i = 0; i < all.size(); ++i)
    if (!integer_at(*value, type == GgufType::boolean ? GgufType::u8 : type, i, all[i])) return wrong(key, "integer");
  out = std::move(all);
  return true;
}

bool GgufMetadata::numbers_per_layer(const std::string& key, index layers, std::vector<double>& out) {
  const GgufValue* value = lookup(key, true);
  if (!value) return false;
  if (value->type != GgufType::array) {
    out.resize(1);
    return number(key, out[0], true);
  }
  std::vector<float> values;
  if (!array(key, GgufType::f32, values)) return false;
  out.assign(values.begin(), values.end());
  if (static_cast<index>(out.size()) == layers) return true;
  fail(StatusCode::corrupt_data, "the key " + quote(key) + " has " + std::to_string(out.size()) +
                                     " entries; there must be one for each of the " + std::to_string(layers) +
                                     " layers");
  return false;
}

bool GgufMetadata::integers(const std::string& key, const std::function<void(index)>& take) {
  const GgufValue* value = lookup(key, false);
  if (!value) return false;
  if (value->type != GgufType::array) return wrong(key, "array of integers");
  for (std::uint64_t i = 0; i < value->count; ++i) {
    index each = 0;
    if (!integer_at(*value, value->element, i, each)) return wrong(key, "array of integers");
    take(each);
  }
  return true;
}

bool GgufMetadata::number(const std::string& key, double& out, bool required) {
  const GgufValue* value = lookup(key, required);
  if (!value) return false;
  if (value->type == GgufType::f32) return out = static_cast<double>(value->read<float>()), true;
  if (value->type == GgufType::f64) return out = value->read<double>(), true;
  return wrong(key, "floating-point number");
}

bool GgufMetadata::text(const std::string& key, std::string& out, bool required) {
  const GgufValue* value = lookup(key, required);
  if (!value) return false;
  if (value->type != GgufType::string) return wrong(key, "string");
  out = value->text();
  return true;
}

bool GgufMetadata::boolean(const std::string& key, bool& out) {
  const GgufValue* value = lookup(key, false);
  if (!value) return false;
  if (value->type != GgufType::boolean) return wrong(key, "boolean");
  out = value->read<std::uint8_t>() != 0;
  return true;
}

bool GgufMetadata::strings(const std::string& key, std::vector<std::string_view>& out, bool required) {
  const GgufValue* value = lookup(key, required);
  if (!value) return false;
  if (value->type != GgufType::array || value->element != GgufType::string) return wrong(key, "array of strings");
  GgufCursor cursor(value->bytes);
  out.resize(static_cast<std::size_t>(value->count));
  for (std::string_view& each : out) cursor.read_string(each);  // walked before, cannot fail
  return true;
}

const GgufValue* GgufMetadata::lookup(const std::string& key, bool required) {
  if (!status_) return nullptr;
  const GgufValue* value = file_.find(key);
  if (!value && required) fail(StatusCode::not_found, "the key " + quote(key) + " is missing");
  return value;
}

bool GgufMetadata::wrong(const std::string& key, const char* kind) {
  fail(StatusCode::corrupt_data, "the key " + quote(key) + " is no " + kind);
  return false;
}

}  // namespace inlay::exec
