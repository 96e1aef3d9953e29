#include "cl_kernels/runtime/device.hpp"

#include <algorithm>
#include <cctype>
#include <sstream>

#include "cl_kernels/runtime/errors.hpp"

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

std::string text(cl_device_id id, cl_device_info what) {
  std::size_t bytes = 0;
  if (clGetDeviceInfo(id, what, 0, nullptr, &bytes) != CL_SUCCESS || bytes == 0) return {};
  std::string value(bytes, '\0');
  if (clGetDeviceInfo(id, what, bytes, value.data(), nullptr) != CL_SUCCESS) return {};
  value.resize(value.find_last_not_of(std::string(" \0", 2)) + 1);  // some drivers pad
  return value;
}

template <class T> T number(cl_device_id id, cl_device_info what) {
  T value{};
  return clGetDeviceInfo(id, what, sizeof value, &value, nullptr) == CL_SUCCESS ? value : T{};
}

// "OpenCL C 1.2 pocl" -> CL1.2. Devices of OpenCL 3.0 say 1.2 there, and list the versions elsewhere.
std::string newest_language(cl_device_id id) {
  std::size_t bytes = 0;
  if (clGetDeviceInfo(id, CL_DEVICE_OPENCL_C_ALL_VERSIONS, 0, nullptr, &bytes) == CL_SUCCESS && bytes != 0) {
    std::vector<cl_name_version> versions(bytes / sizeof(cl_name_version));
    if (clGetDeviceInfo(id, CL_DEVICE_OPENCL_C_ALL_VERSIONS, bytes, versions.data(), nullptr) == CL_SUCCESS)
      for (const auto& one : versions)
        if (CL_VERSION_MAJOR(one.version) >= 3) return "CL3.0";
  }
  const std::string version = text(id, CL_DEVICE_OPENCL_C_VERSION);
  return version.starts_with("OpenCL C 2.") ? "CL2.0" : version.starts_with("OpenCL C 3.") ? "CL3.0" : "CL1.2";
}

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

}  // namespace

Expected<ClDevice> describe(cl_device_id id) {
  if (number<cl_bool>(id, CL_DEVICE_COMPILER_AVAILABLE) != CL_TRUE)
    return failure(StatusCode::unsupported, "the OpenCL device " + text(id, CL_DEVICE_NAME) + " has no compiler");
  ClDevice record;
  const auto platform = number<cl_platform_id>(id, CL_DEVICE_PLATFORM);
  std::size_t bytes = 0;
  if (clGetPlatformInfo(platform, CL_PLATFORM_NAME, 0, nullptr, &bytes) == CL_SUCCESS && bytes > 1) {
    record.platform.resize(bytes);
    clGetPlatformInfo(platform, CL_PLATFORM_NAME, bytes, record.platform.data(), nullptr);
    record.platform.resize(bytes - 1);
  }
  record.name = text(id, CL_DEVICE_NAME);
  record.vendor = text(id, CL_DEVICE_VENDOR);
  record.driver = text(id, CL_DRIVER_VERSION);
  record.language = newest_language(id);
  std::istringstream words(text(id, CL_DEVICE_EXTENSIONS));
  for (std::string word; words >> word;) record.extensions.push_back(word);
  std::ranges::sort(record.extensions);
  record.is_cpu = (number<cl_device_type>(id, CL_DEVICE_TYPE) & CL_DEVICE_TYPE_CPU) != 0;
  record.shares_memory = number<cl_bool>(id, CL_DEVICE_HOST_UNIFIED_MEMORY) == CL_TRUE;
  record.compute_units = number<cl_uint>(id, CL_DEVICE_MAX_COMPUTE_UNITS);
  record.max_work_group = number<std::size_t>(id, CL_DEVICE_MAX_WORK_GROUP_SIZE);
  record.local_bytes = number<cl_ulong>(id, CL_DEVICE_LOCAL_MEM_SIZE);
  record.global_bytes = number<cl_ulong>(id, CL_DEVICE_GLOBAL_MEM_SIZE);
  record.max_allocation = number<cl_ulong>(id, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
  return record;
}

Expected<std::vector<Found>> find_devices() {
  cl_uint platforms = 0;
  // The loader answers with an error where there is no platform at all.
  if (clGetPlatformIDs(0, nullptr, &platforms) != CL_SUCCESS || platforms == 0)
    return failure(StatusCode::not_found, no_devices);
  std::vector<cl_platform_id> platform(platforms);
  if (cl_int error = clGetPlatformIDs(platforms, platform.data(), nullptr); error != CL_SUCCESS)
    return failure(error_status(error, "listing OpenCL platforms"));
  std::vector<Found> found;
  Status first_failure;
  for (cl_platform_id one : platform) {
    cl_uint count = 0;
    if (clGetDeviceIDs(one, CL_DEVICE_TYPE_ALL, 0, nullptr, &count) != CL_SUCCESS || count == 0) continue;
    std::vector<cl_device_id> ids(count);
    if (clGetDeviceIDs(one, CL_DEVICE_TYPE_ALL, count, ids.data(), nullptr) != CL_SUCCESS) continue;
    for (cl_device_id id : ids) {
      auto record = describe(id);
      if (record)
        found.push_back({one, id, std::move(*record)});
      else if (first_failure.ok())
        first_failure = std::move(record.error());
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
