#include "cl_kernels/runtime/programs.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include <unistd.h>

#include <inlay/cl_errors.hpp>

#include "cl_kernels/runtime/sources.hpp"
#include "files/whole_file.hpp"

namespace inlay::cl {

namespace {

// PoCL runs `ld` when a kernel is first enqueued, and aborts the process where there is none.
bool linker_on_path() {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');)
    if (access((folder + "/ld").c_str(), X_OK) == 0) return true;
  return false;
}

std::string build_log(cl_program program, cl_device_id device) {
  std::size_t bytes = 0;
  if (clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, 0, nullptr, &bytes) != CL_SUCCESS) return {};
  std::string log(bytes, '\0');
  if (clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, bytes, log.data(), nullptr) != CL_SUCCESS) return {};
  return log.c_str();
}

// FNV-1a: the name of an entry and its check sum. The key itself lies in the entry, so names may collide.
std::uint64_t hash(std::string_view text) {
  std::uint64_t value = 0xcbf29ce484222325u;
  for (unsigned char c : text) value = (value ^ c) * 0x100000001b3u;
  return value;
}

constexpr std::string_view format = "inlay-cl-1\n";

void put(std::string& entry, std::uint64_t number) {
  for (int byte = 0; byte < 8; ++byte) entry.push_back(static_cast<char>(number >> (8 * byte)));
}

// Bounds are checked by the caller.
std::uint64_t number_at(std::string_view entry, std::size_t at) {
  std::uint64_t number = 0;
  for (int byte = 0; byte < 8; ++byte)
    number |= std::uint64_t{static_cast<unsigned char>(entry[at + byte])} << (8 * byte);
  return number;
}

}  // namespace

bool run_probe(cl_context context, cl_command_queue queue, Kernel& kernel, std::size_t items, void* data,
               std::size_t bytes) {
  cl_mem there = clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, bytes, data, nullptr);
  const bool ran =
      kernel.set(0, there) == CL_SUCCESS &&
      clEnqueueNDRangeKernel(queue, kernel.object(), 1, nullptr, &items, &items, 0, nullptr, nullptr) == CL_SUCCESS &&
      clEnqueueReadBuffer(queue, there, CL_TRUE, 0, bytes, data, 0, nullptr, nullptr) == CL_SUCCESS;
  if (there != nullptr) clReleaseMemObject(there);
  return ran;
}

Programs::~Programs() {
  for (auto& [key, program] : programs_) {
    program.kernels.clear();
    clReleaseProgram(program.object);
  }
}

Expected<Kernel*> Programs::kernel(const ProgramKey& key, const char* name) {
  auto program = this->program(key);
  if (!program) return failure(std::move(program.error()));
  Launches& launches = (*program)->of(name);
  if (launches.step != step_ || launches.next == max_launches) launches.next = 0;
  launches.step = step_;
  if (launches.next == launches.objects.size()) {
    auto made = new_kernel(**program, key, name);
    if (!made) return failure(std::move(made.error()));
    launches.objects.push_back(std::move(*made));
  }
  return launches.objects[launches.next++].get();
}

Expected<std::unique_ptr<Kernel>> Programs::new_kernel(const ProgramKey& key, const char* name) {
  auto program = this->program(key);
  if (!program) return failure(std::move(program.error()));
  return new_kernel(**program, key, name);
}

Expected<std::unique_ptr<Kernel>> Programs::new_kernel(const Program& program, const ProgramKey& key,
                                                       const char* name) {
  cl_int error = CL_SUCCESS;
  cl_kernel made = clCreateKernel(program.object, name, &error);
  if (error != CL_SUCCESS)
    return failure(error_status(error, "OpenCL kernel " + std::string(name) + " of " + key.text()));
  return std::make_unique<Kernel>(made);
}

Programs::Launches& Programs::Program::of(const char* name) {
  for (Launches& known : kernels)
    if (known.name == name) return known;
  for (Launches& known : kernels)
    if (std::strcmp(known.name, name) == 0) return known;  // the literal of another file
  return kernels.emplace_back(Launches{.name = name});
}

Expected<Programs::Program*> Programs::program(const ProgramKey& key) {
  if (const auto known = programs_.find(key); known != programs_.end()) return &known->second;
  auto made = load_or_build(key);
  if (!made) return failure(std::move(made.error()));
  return &programs_.emplace(key, Program{*made}).first->second;
}

Expected<cl_program> Programs::load_or_build(const ProgramKey& key) {
  if (key.overfull())
    return failure(StatusCode::internal, "OpenCL program " + key.text() + " defines more than " +
                                             std::to_string(ProgramKey::max_definitions) + " names");
  const std::string text = source(key.stem());
  if (text.empty()) return failure(StatusCode::internal, "there is no OpenCL source named " + std::string(key.stem()));
  const std::string options = options_ + key.definitions();
  if (cache_.empty()) return build(text, options, key.text());
  const std::string entry_key = cache_key(text, options);
  std::ostringstream file;
  file << cache_ << '/' << std::hex << hash(entry_key) << ".cl_program";
  if (auto loaded = load(file.str(), entry_key)) return loaded;
  auto built = build(text, options, key.text());
  if (built) save(*built, file.str(), entry_key);
  return built;
}

Expected<cl_program> Programs::build(std::string_view text, const std::string& options, const std::string& what,
                                     bool* refused) {
  if (record_.platform == "Portable Computing Language" && !linker_on_path())
    return failure(StatusCode::not_found,
                   "PoCL links kernels with `ld`, which PATH does not have; install binutils or mend PATH");
  const char* data = text.data();
  const std::size_t size = text.size();
  cl_int error = CL_SUCCESS;
  cl_program program = clCreateProgramWithSource(context_, 1, &data, &size, &error);
  if (error != CL_SUCCESS) return failure(error_status(error, "OpenCL program " + what));
  error = clBuildProgram(program, 1, &device_, options.c_str(), nullptr, nullptr);
  if (refused != nullptr) *refused = error == CL_BUILD_PROGRAM_FAILURE || error == CL_INVALID_BUILD_OPTIONS;
  if (error != CL_SUCCESS) {
    std::string log = build_log(program, device_);
    clReleaseProgram(program);
    return failure(error_status(
        error, "OpenCL program " + what + " built with '" + options + "' on " + record_.name + " says:\n" + log));
  }
  return program;
}

std::string Programs::cache_key(std::string_view text, std::string_view options) const {
  std::string key;
  for (std::string_view part : {std::string_view(record_.platform), std::string_view(record_.name),
                                std::string_view(record_.driver), options, text})
    key.append(part).append(1, '\0');
  return key;
}

// An entry: the format's name, the key and the binary, each with its length before it, and the hash of all that.
// Whatever is wrong with it, the program is built anew.
Expected<cl_program> Programs::load(const std::string& file, const std::string& key) {
  const auto refused = [] { return failure(StatusCode::corrupt_data, "no usable entry"); };
  std::ifstream in(file, std::ios::binary);
  std::string entry((std::istreambuf_iterator<char>(in)), {});
  const std::size_t fixed = format.size() + 24;
  if (entry.size() < fixed || !entry.starts_with(format)) return refused();
  const std::string_view body = std::string_view(entry).substr(0, entry.size() - 8);
  if (number_at(entry, entry.size() - 8) != hash(body)) return refused();
  const std::uint64_t key_bytes = number_at(entry, format.size());
  if (key_bytes != key.size() || key_bytes > entry.size() - fixed) return refused();
  if (entry.compare(format.size() + 8, key.size(), key) != 0) return refused();
  const std::size_t at = format.size() + 8 + key.size();
  const std::uint64_t bytes = number_at(entry, at);
  if (bytes != entry.size() - fixed - key.size()) return refused();
  const auto* binary = reinterpret_cast<const unsigned char*>(entry.data() + at + 8);
  const std::size_t size = bytes;
  cl_int status = CL_SUCCESS, error = CL_SUCCESS;
  cl_program program = clCreateProgramWithBinary(context_, 1, &device_, &size, &binary, &status, &error);
  if (error != CL_SUCCESS) return refused();
  if (clBuildProgram(program, 1, &device_, options_.c_str(), nullptr, nullptr) != CL_SUCCESS) {
    clReleaseProgram(program);
    return refused();
  }
  return program;
}

// A cache that cannot be written is no error: the program is there. Another process sees a whole entry or none.
void Programs::save(cl_program program, const std::string& file, const std::string& key) const {
  // An engine's context may have other devices, which have no binary: the program was built for ours alone. Which of
  // them is ours does not tell where the binary is: PoCL 3.1 puts it first.
  cl_uint count = 0;
  if (clGetProgramInfo(program, CL_PROGRAM_NUM_DEVICES, sizeof count, &count, nullptr) != CL_SUCCESS) return;
  const auto ask = [&](cl_program_info what, auto& list) {
    return clGetProgramInfo(program, what, count * sizeof list[0], list.data(), nullptr) == CL_SUCCESS;
  };
  std::vector<std::size_t> sizes(count);
  if (!ask(CL_PROGRAM_BINARY_SIZES, sizes)) return;
  std::vector<std::string> binaries(count);
  std::vector<char*> data(count);
  for (std::size_t i = 0; i < count; ++i) {
    binaries[i].resize(sizes[i]);
    data[i] = binaries[i].data();
  }
  if (!ask(CL_PROGRAM_BINARIES, data)) return;
  const auto ours = std::find_if(binaries.begin(), binaries.end(), [](const auto& binary) { return !binary.empty(); });
  if (ours == binaries.end()) return;
  std::string entry(format);
  put(entry, key.size());
  entry += key;
  put(entry, ours->size());
  entry += *ours;
  put(entry, hash(entry));
  std::error_code ignored;
  std::filesystem::create_directories(cache_, ignored);
  (void)files::write_whole(file, entry).ok();
}

}  // namespace inlay::cl
