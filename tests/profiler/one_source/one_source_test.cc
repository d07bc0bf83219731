// SPDX-License-Identifier: Apache-2.0
// The table of sources with one more, which took the edits in apply.py. `tmprof record --source`
// and the daemon's settings read SourceKinds().

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "profiler/session_sources.h"
#include "profiler/source_kind.h"

namespace tmprof {
namespace one_source_test {

TEST(OneSource, IsListedWithTheOthers) {
  EXPECT_EQ(SourceKinds().front().name, "example");
  EXPECT_EQ(SourceKinds().front().label, "an example of samples");
  EXPECT_EQ(SourceKinds().back().name, kExactSource.name);
}

TEST(OneSource, IsOpenedByItsNameAndDelivers) {
  SourceChoice choice;
  choice.names = {"example"};
  choice.gate = "off";
  auto session = OpenSources(choice);
  ASSERT_TRUE(session) << session.error().Message();
  ASSERT_EQ(session->sources.size(), 1u);
  Source& source = *session->sources[0];
  EXPECT_EQ(source.name(), "example");
  ASSERT_TRUE(source.SetTargets({{.id = TargetId(3), .pid = Pid(10), .start_time_ticks = 1}}));
  const SourceEpoch epoch = source.TakeEpoch();
  EXPECT_EQ(epoch.status.name, "example");
  ASSERT_EQ(epoch.samples.size(), 1u);
  EXPECT_EQ(epoch.samples[0].key, (PageKey{TargetId(3), Vpn(5)}));
}

TEST(OneSource, IsInDoctorsList) {
  const std::vector<Probe> probes = ProbeSources();
  const auto probe = std::ranges::find(probes, "example", &Probe::name);
  ASSERT_NE(probe, probes.end());
  EXPECT_TRUE(probe->usable);
  EXPECT_EQ(probe->detail, "it is an example");
}

}  // namespace one_source_test
}  // namespace tmprof
