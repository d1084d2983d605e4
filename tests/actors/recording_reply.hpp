#pragma once

#include <atomic>
#include <string>

#include "actors/ports.hpp"

namespace tutti::test {

/// A reply as its client would see it. Read it when the upload cannot be running, or after wait_until_ended.
class RecordingReply final : public UploadSink {
 public:
  void begin(ReplyHead reply_head) override {
    head = std::move(reply_head);
    ++begins;
  }
  void write(std::string piece) override {
    body += piece;
    ++pieces;
  }
  void end() override {
    ++ends;
    ends.notify_all();
  }
  void wait_until_ended() const { ends.wait(0); }

  ReplyHead head;
  std::string body;
  int begins = 0;
  int pieces = 0;
  std::atomic<int> ends{0};
};

}  // namespace tutti::test
