#include <inlay/core/threads.hpp>

#include <gtest/gtest.h>

#include <sched.h>

#include <map>
#include <string>
#include <thread>

namespace inlay {
namespace {

using Files = std::map<std::string, std::string>;

std::optional<int> granted(const Files& files) {
  return cgroup_processors([&](const std::string& path) {
    const auto found = files.find(path);
    return found == files.end() ? std::string() : found->second;
  });
}

// A container in a namespace of its own, version 2: its group is the root.
std::optional<int> of_version2(const std::string& max) {
  return granted({{"/proc/self/cgroup", "0::/\n"},
                  {"/proc/self/mountinfo", "24 1 0:22 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"},
                  {"/sys/fs/cgroup/cpu.max", max}});
}

std::optional<int> of_version1(const std::string& quota, const std::string& period) {
  return granted({{"/proc/self/cgroup", "9:name=systemd:/\n2:cpuacct,cpu:/\n1:cpuset:/\n"},
                  {"/proc/self/mountinfo",
                   "30 24 0:26 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
                   "31 24 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"},
                  {"/sys/fs/cgroup/cpuset/cpu.cfs_quota_us", "50000"},  // of a hierarchy that knows none
                  {"/sys/fs/cgroup/cpuset/cpu.cfs_period_us", "100000"},
                  {"/sys/fs/cgroup/cpu/cpu.cfs_quota_us", quota},
                  {"/sys/fs/cgroup/cpu/cpu.cfs_period_us", period}});
}

TEST(allowed, quotas_are_rounded_up) {
  EXPECT_EQ(of_version2("max 100000\n"), std::nullopt);
  EXPECT_EQ(of_version2("100000 100000\n"), 1);
  EXPECT_EQ(of_version2("100001 100000\n"), 2);
  EXPECT_EQ(of_version2("150000 100000"), 2);
  EXPECT_EQ(of_version2("1000 100000\n"), 1);
  EXPECT_EQ(of_version2("800000 50000\n"), 16);
  EXPECT_EQ(of_version1("-1\n", "100000\n"), std::nullopt);
  EXPECT_EQ(of_version1("250000\n", "100000\n"), 3);
  EXPECT_EQ(of_version1("200000\n", "100000\n"), 2);
}

TEST(allowed, nonsense_is_no_limit) {
  for (const char* max :
       {"", "\n", "max", "max max", "100000", "100000 ", "x 100000", "100000 x", "0 100000", "-5 100000", "100000 0",
        "100000 -1", "99999999999999999999 100000", "1e5 100000", "100000\t100000", "0x10 0x10", "100000,100000"})
    EXPECT_EQ(of_version2(max), std::nullopt) << max;
  for (const char* quota : {"", "max", "0", "-2", "a", "1.5", "99999999999999999999"})
    EXPECT_EQ(of_version1(quota, "100000\n"), std::nullopt) << quota;
  for (const char* period : {"", "0", "-100000", "b"})
    EXPECT_EQ(of_version1("100000\n", period), std::nullopt) << period;
  EXPECT_EQ(of_version2("9223372036854775807 1"), Threads::most);
  EXPECT_EQ(granted({}), std::nullopt);
  for (const char* text : {"", "\n\n", ":", "::", "0:", "0::", " - ", " - cgroup2 x", "1 2 3 / /m - cgroup2",
                           "1 2 3 /a /m r - cgroup2 c rw\n1 2 3 / /m r - cgroup c cpu\n"})
    for (const char* other : {"", "0::/a\n1:cpu:/\n", "0::\n", "1:cpu:\n"}) {
      granted({{"/proc/self/cgroup", text}, {"/proc/self/mountinfo", other}});
      granted({{"/proc/self/cgroup", other}, {"/proc/self/mountinfo", text}});
    }
}

// The least of the own group and those above it.
TEST(allowed, groups_above_count) {
  Files files = {{"/proc/self/cgroup", "0::/a/b\n"},
                 {"/proc/self/mountinfo", "24 1 0:22 / /cg rw - cgroup2 cgroup2 rw\n"},
                 {"/cg/a/b/cpu.max", "400000 100000"}};
  EXPECT_EQ(granted(files), 4);
  files["/cg/a/cpu.max"] = "300000 100000";
  EXPECT_EQ(granted(files), 3);
  files["/cg/cpu.max"] = "200000 100000";
  EXPECT_EQ(granted(files), 2);
  files["/cg/a/b/cpu.max"] = "100000 100000";
  EXPECT_EQ(granted(files), 1);
  files["/cg/a/b/cpu.max"] = "max 100000";
  files["/cg/cpu.max"] = "max 100000";
  EXPECT_EQ(granted(files), 3);
}

// A container without a namespace of its own, its group mounted as the root; one whose path is not below the mount; and
// both versions at once.
TEST(allowed, mounts_that_begin_in_a_group) {
  Files files = {{"/proc/self/cgroup", "9:name=systemd:/docker/c2\n4:cpu:/docker/c1/sub\n0::/docker/c1\n"},
                 {"/proc/self/mountinfo", "31 24 0:27 /docker/c1 /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"},
                 {"/sys/fs/cgroup/cpu/sub/cpu.cfs_quota_us", "300000"},
                 {"/sys/fs/cgroup/cpu/sub/cpu.cfs_period_us", "100000"}};
  EXPECT_EQ(granted(files), 3);
  files["/sys/fs/cgroup/cpu/cpu.cfs_quota_us"] = "200000";
  files["/sys/fs/cgroup/cpu/cpu.cfs_period_us"] = "100000";
  EXPECT_EQ(granted(files), 2);
  for (const char* elsewhere : {"/elsewhere", "/docker/c12", "/docker/c"}) {
    files["/proc/self/cgroup"] = std::string("4:cpu:") + elsewhere + "\n";
    EXPECT_EQ(granted(files), 2) << elsewhere;
  }
  files["/proc/self/cgroup"] = "4:cpu:/docker/c1/sub\n0::/\n";
  files["/proc/self/mountinfo"] += "24 1 0:22 / /cg rw shared:3 - cgroup2 cgroup2 rw\n";
  files["/cg/cpu.max"] = "50000 100000";
  EXPECT_EQ(granted(files), 1);
}

// Names may have spaces and backslashes, which mountinfo writes in octal.
TEST(allowed, names_that_mountinfo_escapes) {
  const Files files = {{"/proc/self/cgroup", "0::/my group/a\\b\n"},
                       {"/proc/self/mountinfo", "24 1 0:22 /my\\040group /c\\040g\\0 rw - cgroup2 cgroup2 rw\n"},
                       {"/c g\\0/a\\b/cpu.max", "200000 100000"}};
  EXPECT_EQ(granted(files), 2);
}

TEST(allowed, affinity_and_the_environment) {
  std::thread([] {  // affinity is a thread's
    const int all = default_width();
    EXPECT_GE(all, 1);
    cpu_set_t set;
    ASSERT_EQ(::sched_getaffinity(0, sizeof set, &set), 0);
    for (int i = 0, kept = 0; i < CPU_SETSIZE; ++i)
      if (CPU_ISSET(i, &set) && kept++ > 0) CPU_CLR(i, &set);
    ASSERT_EQ(::sched_setaffinity(0, sizeof set, &set), 0);
    EXPECT_EQ(default_width(), 1);
    setenv("INLAY_THREADS", "3", 1);
    EXPECT_EQ(default_width(), 3);
    for (const char* nonsense : {"", "0", "-2", "many", "3x", "1000000"}) {
      setenv("INLAY_THREADS", nonsense, 1);
      EXPECT_EQ(default_width(), 1) << nonsense;
    }
    unsetenv("INLAY_THREADS");
  })
      .join();
}

}  // namespace
}  // namespace inlay
