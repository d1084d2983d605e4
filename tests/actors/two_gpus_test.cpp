// A server of two GPUs, whose kernels are executed on the host.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "actors/metrics.hpp"
#include "actors/service.hpp"
#include "gpu/forwarding_ops.hpp"
#include "tests/actors/service_client.hpp"
#include "tests/engine/cuda_fixture.hpp"

namespace tutti::test {
namespace {

using testing::HasSubstr;

/// The GPU is lost with one of its next ticks.
class LosingOps final : public ForwardingOps {
 public:
  LosingOps(int gpu, std::shared_ptr<std::atomic<int>> ticks_left)
      : ForwardingOps(gpu_ops(gpu)), gpu_(gpu), ticks_left_(std::move(ticks_left)) {}

  void fbank(const PackedFbank& tables, std::span<const FbankJob> jobs) override {
    if (ticks_left_->fetch_sub(1) == 0) cuda::host::lose_device(gpu_);
    ForwardingOps::fbank(tables, jobs);
  }

 private:
  int gpu_;
  std::shared_ptr<std::atomic<int>> ticks_left_;
};

class TwoGpus : public testing::Test {
 protected:
  TwoGpus() : config_(short_chunks("greedy")) {
    for (int gpu = 0; gpu < cuda::host::devices; ++gpu) {
      const auto ops = gpu_ops(gpu);
      models_.push_back(load("conformer-bn-tiny", *ops, config_, "tiny"));
      ticks_left_.push_back(std::make_shared<std::atomic<int>>(-1));
    }
  }
  ~TwoGpus() override { cuda::host::find_devices(); }

  ServiceOptions options(int gpus) {
    ServiceOptions options;
    for (int gpu = 0; gpu < gpus; ++gpu) {
      const auto i = static_cast<size_t>(gpu);
      options.owners.push_back({.device = "cuda:" + std::to_string(gpu),
                                .make_engine =
                                    [=, this] {
                                      return std::make_unique<Engine>(
                                          models_[i], std::make_unique<LosingOps>(gpu, ticks_left_[i]),
                                          config_);
                                    },
                                .core = {},
                                .snapshots = std::chrono::milliseconds(160),
                                .metrics = metrics_,
                                .counts_device = true});
    }
    options.placement.owner_timeout = std::chrono::minutes(5);  // these GPUs are slow
    return options;
  }

  /// What each speaker is told, but partials: which of them come depends on the time.
  static std::vector<std::vector<std::string>> speak(RecognitionService& service) {
    const std::vector<std::vector<std::byte>> speakers{pcm(speech(16000, 9000)), pcm(speech(40000, 9000)),
                                                       pcm(speech(24000, 9000))};
    std::vector<std::vector<std::string>> told(speakers.size());
    std::vector<std::unique_ptr<Client>> clients;
    for (size_t i = 0; i < speakers.size(); ++i) {
      clients.push_back(std::make_unique<Client>(service.gateway(), ""));
      clients.back()->wait_until_placed();
    }
    for (size_t i = 0; i < speakers.size(); ++i) {
      clients[i]->send(speakers[i]);
      clients[i]->send_text(R"({"type":"eof"})");
    }
    for (size_t i = 0; i < speakers.size(); ++i) {
      for (const std::string& message : clients[i]->wait_until_closed().messages) {
        if (message.find("\"partial\"") == std::string::npos) told[i].push_back(message);
      }
    }
    return told;
  }

  std::vector<std::vector<std::string>> told_by_one() {
    RecognitionService service(options(1), metrics_);
    return speak(service);
  }

  EngineConfig config_;
  std::vector<std::shared_ptr<const ConformerCtc>> models_;
  std::vector<std::shared_ptr<std::atomic<int>>> ticks_left_;
  std::shared_ptr<Metrics> metrics_ = std::make_shared<Metrics>();
};

TEST_F(TwoGpus, ShareTheStreamsAndSayWhatOneWouldSay) {
  const auto expected = told_by_one();
  ASSERT_EQ(expected[0].size(), 3U);
  RecognitionService service(options(2), metrics_);
  EXPECT_EQ(speak(service), expected);
  const std::string text = metrics_->text();
  EXPECT_THAT(text, HasSubstr(R"(tutti_device_allocations_total{device="cuda:0"} 0)"));
  EXPECT_THAT(text, HasSubstr(R"(tutti_device_allocations_total{device="cuda:1"} 0)"));
  EXPECT_THAT(text, HasSubstr(R"(tutti_device_forwards_total{device="cuda:1",how="eager"})"));
  EXPECT_THAT(text, testing::Not(HasSubstr(R"(tutti_device_waits_total{device="cuda:1"} 0)")));
  EXPECT_THAT(text, testing::Not(HasSubstr("tutti_snapshots_total 0")));
}

TEST_F(TwoGpus, GoOnAsOneWithTheStreamsOfTheOtherWhenThatIsLost) {
  const auto expected = told_by_one();
  RecognitionService service(options(2), metrics_);
  service.listening();
  *ticks_left_[0] = 1;  // a stream has three chunks at least
  EXPECT_EQ(speak(service), expected);
  EXPECT_LT(*ticks_left_[0], 0) << "no GPU was lost";
  EXPECT_THAT(metrics_->text(), HasSubstr("tutti_owner_losses_total{how=\"died\"}"));
  EXPECT_THAT(metrics_->text(), testing::Not(HasSubstr("tutti_moved_streams_total 0")));
}

}  // namespace
}  // namespace tutti::test
