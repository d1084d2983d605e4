#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <utility>
#include <variant>

#include "app/audio_source.hpp"
#include "app/client_message.hpp"
#include "app/commands.hpp"
#include "app/connection_options.hpp"
#include "app/pace.hpp"
#include "app/signal_watch.hpp"
#include "app/transcript_view.hpp"
#include "audio/resampler.hpp"
#include "config/result.hpp"
#include "net/client.hpp"
#include "proto/server_event.hpp"

namespace tutti {

namespace {

struct Options {
  std::string url;
  std::string input = "-";
  ConnectionOptions connection;
  int rate = 16000;
  bool fast = false;
};

int terminal_columns() {
  winsize size{};
  const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return known ? size.ws_col : 80;
}

/// One recording on its way to a server, and what comes back on its way to the screen.
class Listening final : public ClientListener {
 public:
  Listening(ClientLoop& loop, const ClientUrl& url, const Options& options, AudioSource& source)
      : loop_(loop),
        url_(url),
        source_(source),
        paced_(!options.fast && options.input != "-"),
        view_(::isatty(STDOUT_FILENO) == 1, terminal_columns()),
        client_(loop, url, options.connection.api_key, *this) {}

  void start() { client_.connect(); }

  /// No more audio: what was sent is still recognized.
  void finish() {
    finishing_ = true;
    if (ready_) send_next();
  }

  [[nodiscard]] int exit_code() const { return done_ ? 0 : 1; }

 private:
  void on_open() override {}

  void on_message(std::string_view message) override {
    const auto event = proto::parse_server_event(message);
    if (!event) return complain(event.error().message);
    std::visit([this](const auto& e) { on_event(e); }, *event);
  }

  void on_event(const proto::Ready& /*ready*/) {
    ready_ = true;
    pace_ = Pace(source_.sample_rate(), std::chrono::steady_clock::now());
    send_next();
  }
  void on_event(const proto::Partial& partial) { show(view_.partial(partial.text)); }
  void on_event(const proto::Final& final) { show(view_.final(final.text, final.start)); }
  void on_event(const proto::Done& /*done*/) { done_ = true; }
  void on_event(const proto::SpeechStarted& /*speech*/) {}
  void on_event(const proto::SpeechStopped& /*speech*/) {}
  void on_event(const proto::ErrorEvent& error) { complain("the server said: " + error.error.message); }

  void on_sent() override {
    if (!eof_sent_) send_next();
  }

  void on_end(const ClientEnd& end) override {
    show(view_.clear());
    if (!done_ && !complained_) complain(describe(end, url_));
  }

  /// Sends what is there, or comes back when there is more.
  void send_next() {
    if (!client_.can_send() || eof_sent_) return;
    if (finishing_) return send_eof();
    const auto now = std::chrono::steady_clock::now();
    const int64_t frame = Pace::frame_samples(source_.sample_rate());
    if (paced_ && pace_.spoken(sent_samples_ + frame) > now) {
      return come_back(pace_.spoken(sent_samples_ + frame));
    }
    std::string bytes;
    switch (source_.read(paced_ ? frame : fast_frames * frame, bytes)) {
      case AudioSource::State::data:
        sent_samples_ += static_cast<int64_t>(bytes.size() / sizeof(int16_t));
        return client_.send_binary(std::move(bytes));
      case AudioSource::State::waiting:
        return come_back(now + std::chrono::milliseconds(Pace::frame_ms));
      case AudioSource::State::end:
        return send_eof();
    }
  }

  // At most one return is waiting, whoever asks.
  void come_back(Pace::TimePoint when) {
    if (std::exchange(returning_, true)) return;
    loop_.call_at(when, [this] {
      returning_ = false;
      send_next();
    });
  }

  void send_eof() {
    eof_sent_ = true;
    client_.send_text(R"({"type":"eof"})");
  }

  void complain(const std::string& what) {
    complained_ = true;
    show(view_.clear());
    std::cerr << "tutti: " << what << '\n';
  }

  static void show(const std::string& text) { std::cout << text << std::flush; }

  static constexpr int64_t fast_frames = 10;

  ClientLoop& loop_;
  const ClientUrl& url_;
  AudioSource& source_;
  bool paced_;
  TranscriptView view_;
  Pace pace_{1, {}};
  int64_t sent_samples_ = 0;
  bool ready_ = false;
  bool returning_ = false;
  bool finishing_ = false;
  bool eof_sent_ = false;
  bool done_ = false;
  bool complained_ = false;
  WsClient client_;
};

int listen(const Options& options) {
  const auto source =
      options.input == "-" ? open_raw_audio(STDIN_FILENO, options.rate) : open_audio_file(options.input);
  auto url = parse_client_url(options.url).and_then([&](ClientUrl parsed) {
    return with_defaults(std::move(parsed), {{"encoding", "pcm_s16le"},
                                             {"sample_rate", std::to_string(source->sample_rate())},
                                             {"words", "false"}});
  });
  if (!url) throw SetupError(url.error().message);
  block_signals({SIGTERM, SIGINT});
  ClientLoop loop(options.connection.ca_file);
  Listening listening(loop, *url, options, *source);
  const SignalWatch signals({SIGTERM, SIGINT}, [&](int count) {
    if (count > 1) return loop.stop();
    loop.post([&listening] { listening.finish(); });
  });
  listening.start();
  loop.run();
  return listening.exit_code();
}

}  // namespace

void add_listen(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<Options>();
  CLI::App* const command =
      app.add_subcommand("listen", "Show what a server hears in a file or a microphone");
  command->footer(
      "A file is sent at the speed it was spoken, a pipe as it comes:\n"
      "  arecord -q -f S16_LE -r 16000 -c 1 -t raw | tutti listen ws://127.0.0.1:8080 -\n"
      "On a terminal the text grows as it is spoken; elsewhere each final is a line.\n"
      "Ctrl-C ends the recording and waits for its last words; a second one does not wait.\n"
      "Exit status 0 when the server has transcribed all that was sent, 1 otherwise.");
  command
      ->add_option(
          "url", options->url,
          "The server: ws://HOST:PORT or wss://HOST:PORT, and a path and parameters where they differ from "
          "the usual")
      ->required();
  command
      ->add_option("input", options->input,
                   "A sound file (WAV, FLAC, Ogg, MP3, ...), or - for raw signed 16-bit mono samples")
      ->type_name("FILE|-")
      ->capture_default_str();
  command->add_option("--rate", options->rate, "Sample rate of -")
      ->check(CLI::Range(min_sample_rate, max_sample_rate))
      ->capture_default_str();
  add_connection_options(*command, options->connection);
  command->add_flag("--fast", options->fast, "Send a file as fast as the server takes it");
  command->callback([options, &exit_code] { exit_code = listen(*options); });
}

}  // namespace tutti
