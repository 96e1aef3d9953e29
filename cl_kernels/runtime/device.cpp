#include "cl_kernels/runtime/device.hpp"

#include <algorithm>
#include <cctype>
#include <sstream>

#include <inlay/cl_errors.hpp>

namespace inlay {

bool ClDevice::has(std::string_view extension) const {
  return std::binary_search(extensions.begin(), extensions.end(), extension);
}

Expected<std::vector<ClDevice>> cl_devices() {
  auto found = cl::find_devices();
  if (!found) return failure(std::move(found.error()));
  std::vector<ClDevice> records;
  for (auto& device : *found) records.push_back(std::move(device.record));
  return records;
}

namespace cl {

namespace {

constexpr const char* no_devices =
    "no OpenCL device: install a platform (Debian: pocl-opencl-icd), and see that it can write to its cache "
    "(PoCL shows no device where POCL_CACHE_DIR or ~/.cache cannot be written)";

// Asks a device of itself. A question that it does not know has no answer; any other failure is kept.
class Questions {
 public:
  explicit Questions(cl_device_id id) : id_(id) {}

  std::string text(cl_device_info what) {
    return text_of(
        [&](std::size_t room, void* to, std::size_t* bytes) { return clGetDeviceInfo(id_, what, room, to, bytes); });
  }
  std::string platform_name() {
    const auto platform = number<cl_platform_id>(CL_DEVICE_PLATFORM);
    return text_of([&](std::size_t room, void* to, std::size_t* bytes) {
      return clGetPlatformInfo(platform, CL_PLATFORM_NAME, room, to, bytes);
    });
  }
  template <class T> T number(cl_device_info what) {
    T value{};
    return answered(clGetDeviceInfo(id_, what, sizeof value, &value, nullptr)) ? value : T{};
  }
  std::vector<cl_name_version> versions(cl_device_info what) {
    std::size_t bytes = 0;
    if (!answered(clGetDeviceInfo(id_, what, 0, nullptr, &bytes))) return {};
    std::vector<cl_name_version> list(bytes / sizeof(cl_name_version));
    if (list.empty() || !answered(clGetDeviceInfo(id_, what, bytes, list.data(), nullptr))) return {};
    return list;
  }
  cl_int error() const { return error_; }

 private:
  bool answered(cl_int error) {
    if (error != CL_SUCCESS && error != CL_INVALID_VALUE) error_ = error;
    return error == CL_SUCCESS;
  }
  template <class Ask> std::string text_of(Ask&& ask) {
    std::size_t bytes = 0;
    if (!answered(ask(0, nullptr, &bytes)) || bytes == 0) return {};
    std::string value(bytes, '\0');
    if (!answered(ask(bytes, value.data(), nullptr))) return {};
    value.resize(value.find_last_not_of(std::string(" \0", 2)) + 1);  // some drivers pad
    return value;
  }

  cl_device_id id_;
  cl_int error_ = CL_SUCCESS;
};

// "OpenCL C 1.2 pocl" -> CL1.2. Devices of OpenCL 3.0 say 1.2 there, and list the versions elsewhere.
std::string newest_language(Questions& ask) {
  for (const auto& one : ask.versions(CL_DEVICE_OPENCL_C_ALL_VERSIONS))
    if (CL_VERSION_MAJOR(one.version) >= 3) return "CL3.0";
  const std::string version = ask.text(CL_DEVICE_OPENCL_C_VERSION);
  return version.starts_with("OpenCL C 2.") ? "CL2.0" : version.starts_with("OpenCL C 3.") ? "CL3.0" : "CL1.2";
}

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

}  // namespace

Expected<ClDevice> describe(cl_device_id id) {
  Questions ask(id);
  ClDevice record;
  const bool compiles = ask.number<cl_bool>(CL_DEVICE_COMPILER_AVAILABLE) == CL_TRUE;
  record.platform = ask.platform_name();
  record.name = ask.text(CL_DEVICE_NAME);
  record.vendor = ask.text(CL_DEVICE_VENDOR);
  record.driver = ask.text(CL_DRIVER_VERSION);
  record.language = newest_language(ask);
  std::istringstream words(ask.text(CL_DEVICE_EXTENSIONS));
  for (std::string word; words >> word;) record.extensions.push_back(word);
  std::ranges::sort(record.extensions);
  record.is_cpu = (ask.number<cl_device_type>(CL_DEVICE_TYPE) & CL_DEVICE_TYPE_CPU) != 0;
  record.shares_memory = ask.number<cl_bool>(CL_DEVICE_HOST_UNIFIED_MEMORY) == CL_TRUE;
  record.compute_units = ask.number<cl_uint>(CL_DEVICE_MAX_COMPUTE_UNITS);
  record.max_work_group = ask.number<std::size_t>(CL_DEVICE_MAX_WORK_GROUP_SIZE);
  record.local_bytes = ask.number<cl_ulong>(CL_DEVICE_LOCAL_MEM_SIZE);
  record.global_bytes = ask.number<cl_ulong>(CL_DEVICE_GLOBAL_MEM_SIZE);
  record.max_allocation = ask.number<cl_ulong>(CL_DEVICE_MAX_MEM_ALLOC_SIZE);
  if (ask.error() != CL_SUCCESS) return failure(error_status(ask.error(), "asking OpenCL device " + record.name));
  if (!compiles) return failure(StatusCode::unsupported, "the OpenCL device " + record.name + " has no compiler");
  return record;
}

Expected<std::vector<Found>> find_devices() {
  cl_uint platforms = 0;
  const cl_int counted = clGetPlatformIDs(0, nullptr, &platforms);
  constexpr cl_int no_platform = -1001;  // the loader's, where there is none at all
  if (counted != CL_SUCCESS && counted != no_platform)
    return failure(error_status(counted, "listing OpenCL platforms"));
  if (platforms == 0) return failure(StatusCode::not_found, no_devices);
  std::vector<cl_platform_id> platform(platforms);
  if (cl_int error = clGetPlatformIDs(platforms, platform.data(), nullptr); error != CL_SUCCESS)
    return failure(error_status(error, "listing OpenCL platforms"));
  std::vector<Found> found;
  Status first_failure;
  const auto note = [&](Status status) {
    if (first_failure.ok()) first_failure = std::move(status);
  };
  for (cl_platform_id one : platform) {
    cl_uint count = 0;
    std::vector<cl_device_id> ids;
    cl_int error = clGetDeviceIDs(one, CL_DEVICE_TYPE_ALL, 0, nullptr, &count);
    if (error == CL_SUCCESS) {
      ids.resize(count);
      if (count > 0) error = clGetDeviceIDs(one, CL_DEVICE_TYPE_ALL, count, ids.data(), nullptr);
    }
    if (error == CL_DEVICE_NOT_FOUND) continue;
    if (error != CL_SUCCESS) {
      note(error_status(error, "listing the devices of an OpenCL platform"));
      continue;
    }
    for (cl_device_id id : ids) {
      auto record = describe(id);
      if (record)
        found.push_back({one, id, std::move(*record)});
      else
        note(std::move(record.error()));
    }
  }
  if (!found.empty()) return found;
  return first_failure.ok() ? failure(StatusCode::not_found, no_devices) : failure(std::move(first_failure));
}

Expected<Found> choose_device(const std::string& wanted) {
  auto found = find_devices();
  if (!found) return failure(std::move(found.error()));
  std::ranges::stable_sort(*found, [](const Found& a, const Found& b) {
    return a.record.is_cpu != b.record.is_cpu ? b.record.is_cpu : a.record.global_bytes > b.record.global_bytes;
  });
  std::string names;
  for (Found& device : *found) {
    const std::string full = device.record.platform + ": " + device.record.name;
    if (wanted.empty() || lower(full).find(lower(wanted)) != std::string::npos) return std::move(device);
    names += (names.empty() ? "" : ", ") + full;
  }
  return failure(StatusCode::not_found, "no OpenCL device is named '" + wanted + "'; there are: " + names);
}

}  // namespace cl
}  // namespace inlay
