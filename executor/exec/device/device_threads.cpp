#include <inlay/exec/device/device_threads.hpp>

#include <condition_variable>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

namespace inlay::exec {

class DeviceThreads::Thread {
 public:
  Thread() {
    try {
      thread_ = std::thread([this] { work(); });
    } catch (const std::system_error& error) {
      refused_ = error.what();
    }
  }
  ~Thread() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

  // Nothing where it may start.
  std::string why_not() const {
    if (!refused_.empty()) return "has no thread: " + refused_;
    const std::lock_guard lock(mutex_);
    return lost_ ? "is lost: a step of an earlier run is still under way" : "";
  }
  void start(std::function<void()> job) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !job_; });
    job_ = std::move(job);
    changed_.notify_all();
  }
  void lose() {
    {
      const std::lock_guard lock(mutex_);
      lost_ = static_cast<bool>(job_);
    }
    changed_.notify_all();
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return ends_ || job_; });
      if (!job_) return;
      lock.unlock();
      job_();
      lock.lock();
      job_ = nullptr;
      lost_ = false;
      changed_.notify_all();
    }
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> job_;  // set until it has ended
  bool lost_ = false, ends_ = false;
  std::string refused_;
  std::thread thread_;
};

DeviceThreads::DeviceThreads(std::span<Device* const> devices) : devices_(devices.begin(), devices.end()) {
  for (std::size_t i = 0; i < devices_.size(); ++i) threads_.push_back(std::make_unique<Thread>());
}
DeviceThreads::~DeviceThreads() = default;

Status DeviceThreads::check(std::size_t device) const {
  const std::string why = threads_[device]->why_not();
  return why.empty() ? Status()
                     : Status(StatusCode::internal, "device " + std::string(devices_[device]->name()) + " " + why);
}
void DeviceThreads::start(std::size_t device, std::function<void()> job) { threads_[device]->start(std::move(job)); }
void DeviceThreads::lose(std::size_t device) { threads_[device]->lose(); }

}  // namespace inlay::exec
