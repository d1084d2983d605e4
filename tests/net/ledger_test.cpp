#include "net/ledger.hpp"

#include <gmock/gmock.h>

namespace tutti {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using Time = Ledger::Time;

// 2023-11-14 22:00:00 UTC.
const Time evening{seconds(1699999200)};

Client with(const ClientLimits& limits, const std::string& name = "alice") {
  return {.name = name, .terms = {.allowed = all_rights(), .limits = limits}};
}

std::string refusal_of(const Admitted<void>& admitted) { return admitted ? "" : admitted.error().error.code; }

TEST(Ledger, KeepsNoAccountOfAClientWithoutLimits) {
  Ledger ledger;
  const Client client = with({});
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(ledger.note_request(client, evening));
    EXPECT_TRUE(ledger.open_stream(client, evening));
    EXPECT_TRUE(ledger.note_audio(client.name, hours(10), evening));
  }
  EXPECT_EQ(ledger.accounts(), 0U);
}

TEST(Ledger, CountsRequestsByTheSecond) {
  Ledger ledger;
  const Client client = with({.max_requests_per_s = 2});
  Time now = evening;
  EXPECT_EQ(refusal_of(ledger.note_request(client, now)), "");
  EXPECT_EQ(refusal_of(ledger.note_request(client, now)), "");
  const auto refused = ledger.note_request(client, now);
  EXPECT_EQ(refusal_of(refused), "rate_limited");
  EXPECT_EQ(refused.error().status, 429U);
  EXPECT_EQ(refused.error().retry_after_s, 1);
  now += milliseconds(500);
  EXPECT_EQ(refusal_of(ledger.note_request(client, now)), "");
  EXPECT_EQ(refusal_of(ledger.note_request(client, now)), "rate_limited");
  // No more is saved up than a second's, and a clock that is put back gives nothing.
  now += hours(1);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(refusal_of(ledger.note_request(client, now)), "");
  now -= hours(2);
  EXPECT_EQ(refusal_of(ledger.note_request(client, now)), "rate_limited");
  now += seconds(1);
  EXPECT_EQ(refusal_of(ledger.note_request(client, now)), "");
  EXPECT_EQ(refusal_of(ledger.note_request(with({.max_requests_per_s = 1}, "bob"), now)), "");
}

TEST(Ledger, CountsStreamsAtOnce) {
  Ledger ledger;
  const Client client = with({.max_streams = 2});
  EXPECT_TRUE(ledger.open_stream(client, evening));
  EXPECT_TRUE(ledger.open_stream(client, evening));
  const auto refused = ledger.open_stream(client, evening);
  EXPECT_EQ(refusal_of(refused), "too_many_streams");
  EXPECT_GT(refused.error().retry_after_s, 0);
  EXPECT_TRUE(ledger.open_stream(with({.max_streams = 2}, "bob"), evening));
  ledger.close_stream("alice");
  EXPECT_TRUE(ledger.open_stream(client, evening));
}

TEST(Ledger, CountsAudioByTheDayOfUtc) {
  Ledger ledger;
  const Client client = with({.max_audio_minutes_per_day = 60});
  ASSERT_TRUE(ledger.open_stream(client, evening));
  EXPECT_TRUE(ledger.note_audio("alice", minutes(59), evening));
  EXPECT_FALSE(ledger.note_audio("alice", minutes(2), evening));
  const auto refused = ledger.open_stream(client, evening);
  EXPECT_EQ(refusal_of(refused), "audio_limit");
  EXPECT_EQ(refused.error().retry_after_s, 2 * 3600);
  EXPECT_TRUE(ledger.open_stream(client, evening + hours(2)));
  EXPECT_TRUE(ledger.note_audio("alice", minutes(1), evening + hours(2)));
}

TEST(Ledger, FollowsTheTermsOfTheLastRequest) {
  Ledger ledger;
  ASSERT_TRUE(ledger.open_stream(with({.max_streams = 1}), evening));
  EXPECT_FALSE(ledger.open_stream(with({.max_streams = 1}), evening));
  EXPECT_TRUE(ledger.open_stream(with({.max_streams = 2}), evening));
}

TEST(Ledger, GivesUpTheOldestAccountWithoutAStream) {
  Ledger ledger(3);
  const ClientLimits limits{.max_streams = 1};
  ASSERT_TRUE(ledger.open_stream(with(limits, "open"), evening));
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(ledger.note_request(with(limits, "passing-" + std::to_string(i)), evening + seconds(i + 1)));
  }
  EXPECT_EQ(ledger.accounts(), 4U);
  EXPECT_EQ(refusal_of(ledger.open_stream(with(limits, "open"), evening)), "too_many_streams");
}

}  // namespace
}  // namespace tutti
