#include "config/config_loader.hpp"

#include <gmock/gmock.h>

#include <map>
#include <string>

#include "config/options.hpp"
#include "config/result.hpp"
#include "tests/config/temp_directory.hpp"

namespace tutti {
namespace {

using ::testing::HasSubstr;
using ::testing::StrEq;
using ::testing::ThrowsMessage;

class LoadConfig : public ::testing::Test {
 protected:
  LoadConfig() {
    sources_.environment = [this](const char* name) {
      const auto found = variables_.find(name);
      return found == variables_.end() ? nullptr : found->second.c_str();
    };
  }

  void write_file(const std::string& text) { sources_.file = folder_.write("tutti.toml", text); }

  [[nodiscard]] ServerConfig load() const { return load_config(sources_); }

  /// Expects a refusal with exactly this message, in which $FILE is the path of the file.
  void expect_refusal(std::string message) const {
    if (const auto at = message.find("$FILE"); at != std::string::npos) message.replace(at, 5, sources_.file);
    EXPECT_THAT([&] { (void)load(); }, ThrowsMessage<SetupError>(StrEq(message)));
  }

  test::TempDirectory folder_;
  std::map<std::string, std::string> variables_;
  ConfigSources sources_;
};

TEST_F(LoadConfig, WithoutSourcesIsTheDefaults) {
  EXPECT_EQ(render_toml(load()), render_toml(ServerConfig{}));
  EXPECT_EQ(render_toml(load_config({})), render_toml(ServerConfig{}));
}

TEST_F(LoadConfig, FlagsBeatTheEnvironmentWhichBeatsTheFile) {
  write_file("[engine]\nmax_streams = 1\nmax_batch_size = 2\nchunk_size = 3\n");
  variables_ = {{"TUTTI_ENGINE_MAX_STREAMS", "10"}, {"TUTTI_ENGINE_MAX_BATCH_SIZE", "20"}};
  sources_.flags = {{"engine.max_streams", "100"}};
  const auto config = load();
  EXPECT_EQ(config.engine.max_streams, 100);
  EXPECT_EQ(config.engine.max_batch_size, 20);
  EXPECT_EQ(config.engine.chunk_size, 3);
  EXPECT_EQ(config.engine.num_left_chunks, EngineConfig{}.num_left_chunks);
}

TEST_F(LoadConfig, ReadsWhatRenderTomlWrites) {
  ServerConfig config;
  config.bind = "[::1]:99";
  config.model = "models/a \"b\" \\ c\n";
  config.engine.num_left_chunks = -1;
  config.engine.max_streams = 7;
  write_file(render_toml(config));
  EXPECT_EQ(render_toml(load()), render_toml(config));
  EXPECT_EQ(load().model, config.model);
}

TEST_F(LoadConfig, NamesFieldPlaceValueAndRange) {
  write_file("# a comment\n[engine]\n\nmax_streams = 0\n");
  expect_refusal("engine.max_streams = 0 (from $FILE:4): expected a whole number from 1 to 100000");
  sources_.file.clear();
  variables_ = {{"TUTTI_ENGINE_MAX_STREAMS", "many"}};
  expect_refusal(
      "engine.max_streams = many (from TUTTI_ENGINE_MAX_STREAMS): expected a whole number from 1 to 100000");
  variables_ = {{"TUTTI_ENGINE_MAX_STREAMS", ""}};
  expect_refusal(
      "engine.max_streams = \"\" (from TUTTI_ENGINE_MAX_STREAMS): expected a whole number from 1 to 100000");
  variables_.clear();
  sources_.flags = {{"server.log_level", "loud"}};
  expect_refusal(
      "server.log_level = loud (from --log-level): expected one of trace, debug, info, warn, error");
}

TEST_F(LoadConfig, AWrongValueIsRefusedEvenWhenAStrongerSourceOverridesIt) {
  write_file("[engine]\nmax_streams = 0\n");
  sources_.flags = {{"engine.max_streams", "5"}};
  expect_refusal("engine.max_streams = 0 (from $FILE:2): expected a whole number from 1 to 100000");
}

TEST_F(LoadConfig, TypesOfTheFileMustMatch) {
  write_file("[engine]\nmax_streams = \"64\"\n");
  expect_refusal(
      "engine.max_streams = '64' (from $FILE:2): expected a whole number from 1 to 100000, not a string");
  write_file("engine.max_streams = 64.0\n");
  expect_refusal(
      "engine.max_streams = 64.0 (from $FILE:1): expected a whole number from 1 to 100000, not a decimal "
      "number");
  write_file("server.log_level = 3\n");
  expect_refusal(
      "server.log_level = 3 (from $FILE:1): expected one of trace, debug, info, warn, error, not a whole "
      "number");
  write_file("engine.max_streams = 99999999999\n");
  expect_refusal("engine.max_streams = 99999999999 (from $FILE:1): expected a whole number from 1 to 100000");
  for (const auto* value : {"true", "[1]", "{a = 1}", "2020-01-01", "{}"}) {
    write_file(std::string("engine.max_streams = ") + value);
    EXPECT_THAT([&] { (void)load(); }, ThrowsMessage<SetupError>(HasSubstr("expected a whole number")))
        << value;
  }
}

TEST_F(LoadConfig, CharactersBeyondAsciiMayStandInStringsAndCommentsOnly) {
  for (const char* text : {"# \xc3\xa9\n[server]\nmodel = \"\xc3\xa9\" # \xc6\xb8\n",
                           "\xef\xbb\xbfserver.model = '\\\xc3\xa9'\n",
                           "server.model = \"\"\"\n\xc3\xa9 \\\"\"\" '\xc3\xa9\"\"\"\"\" # \xc3\xa9\n",
                           "server.model = '''\xc3\xa9\\''' # it's \xc3\xa9\n"}) {
    write_file(text);
    EXPECT_THAT(load().model, HasSubstr("\xc3\xa9")) << text;
  }
  for (const char* text : {"\n\xc6\xb8 = 1\n", "# a\nserver.\xd2\x85 = 1\n", "\nserver.model = \xc3\xa9\n",
                           "\nserver.model = '' \xc3\xa9\n", "\nserver.model = '''a'''\xc2\xa0\n",
                           "\nserver.model = \"\\\\\" \xff\n"}) {
    write_file(text);
    expect_refusal(
        "$FILE:2: a character that is not ASCII; those may stand in strings (\"...\") and comments (#) only");
  }
}

TEST_F(LoadConfig, ASwitchIsABooleanInTheFileAndAWordElsewhere) {
  write_file("server.insecure = true\n");
  EXPECT_TRUE(load().insecure);
  variables_ = {{"TUTTI_SERVER_INSECURE", "false"}};
  EXPECT_FALSE(load().insecure);
  variables_.clear();
  write_file("server.insecure = \"true\"\n");
  expect_refusal("server.insecure = 'true' (from $FILE:1): expected true or false, not a string");
}

TEST_F(LoadConfig, AWeightMayBeWrittenWithOrWithoutDecimals) {
  for (const auto& [written, weight] : {std::pair{"0.25", 0.25F}, {"1", 1.0F}, {"-1", -1.0F}}) {
    write_file(std::string("engine.ctc_weight = ") + written);
    EXPECT_EQ(load().engine.ctc_weight, weight);
  }
  write_file("engine.ctc_weight = -0.5\n");
  expect_refusal("engine.ctc_weight = -0.5 (from $FILE:1): expected -1, or a number from 0 to 100");
  write_file("engine.ctc_weight = \"0.5\"\n");
  expect_refusal(
      "engine.ctc_weight = '0.5' (from $FILE:1): expected -1, or a number from 0 to 100, not a string");
}

TEST_F(LoadConfig, AListIsAnArrayInTheFileAndSeparatedByCommasElsewhere) {
  write_file("[server]\ndialect_at = [\"2700=vosk\", \"6006=sherpa\"]\n");
  EXPECT_THAT(load().dialect_at, ::testing::ElementsAre("2700=vosk", "6006=sherpa"));
  variables_ = {{"TUTTI_SERVER_DIALECT_AT", "1=a,2=b"}};
  EXPECT_THAT(load().dialect_at, ::testing::ElementsAre("1=a", "2=b"));
  variables_.clear();
  write_file("[server]\ndialect_at = \"2700=vosk\"\n");
  expect_refusal(
      "server.dialect_at = '2700=vosk' (from $FILE:2): expected an array of any number of PORT=DIALECT, such "
      "as "
      "2700=vosk, not a string");
  write_file("[server]\ndialect_at = [\"vosk\"]\n");
  expect_refusal(
      "server.dialect_at = [ 'vosk' ] (from $FILE:2): expected any number of PORT=DIALECT, such as "
      "2700=vosk");
}

TEST_F(LoadConfig, ACertificateNeedsItsKeyAndTheKeyACertificate) {
  write_file("server.tls_certificate = \"c.pem\"\n");
  expect_refusal(
      "server.tls_certificate = c.pem (from $FILE:1): expected server.tls_key beside it: TLS needs both");
  sources_.flags = {{"server.tls_key", "k.pem"}};
  EXPECT_EQ(load().tls_key, "k.pem");
  sources_.file.clear();
  expect_refusal(
      "server.tls_key = k.pem (from --tls-key): expected server.tls_certificate beside it: TLS needs both");
}

TEST_F(LoadConfig, AnUnknownKeyNamesTheNearest) {
  write_file("[server]\nbnid = \"127.0.0.1:1\"\n");
  expect_refusal("server.bnid (from $FILE:2): unknown key; the nearest is server.bind");
  write_file("max_streams = 5\n");
  expect_refusal("max_streams (from $FILE:1): unknown key; the nearest is engine.max_streams");
  write_file("[engin]\nmax_streams = 5\n");
  expect_refusal("engin.max_streams (from $FILE:2): unknown key; the nearest is engine.max_streams");
  write_file("[decoder]\n");
  expect_refusal("decoder (from $FILE:1): unknown key; the nearest is engine.decoder");
  write_file("[server]\n[engine]\n");
  EXPECT_NO_THROW((void)load());
}

TEST_F(LoadConfig, AFileThatIsNotTomlNamesTheLine) {
  write_file("[engine]\nmax_streams = = 5\n");
  EXPECT_THAT([&] { (void)load(); }, ThrowsMessage<SetupError>(HasSubstr("tutti.toml:2: ")));
  write_file("[engine]\nmax_streams = 5\nmax_streams = 6\n");
  EXPECT_THAT([&] { (void)load(); }, ThrowsMessage<SetupError>(HasSubstr("tutti.toml:3: ")));
}

TEST_F(LoadConfig, AFileThatIsMissingOrADirectoryIsAnErrorThatNamesIt) {
  sources_.file = folder_.path() / "none.toml";
  expect_refusal("cannot read $FILE: No such file or directory");
  sources_.file = folder_.path();
  expect_refusal("cannot read $FILE: it is a directory");
}

TEST_F(LoadConfig, OtherVariablesWithThePrefixAreNotOurs) {
  variables_ = {{"TUTTI_SERVER_SERVICE_HOST", "10.0.0.1"}, {"TUTTI_SERVER_PORT", "tcp://10.0.0.1:80"}};
  EXPECT_EQ(render_toml(load()), render_toml(ServerConfig{}));
}

TEST_F(LoadConfig, ASessionMayNotSendMoreThanTheEngineBuffers) {
  write_file("[server]\ncredit_ms = 5000\n");
  variables_ = {{"TUTTI_ENGINE_MAX_BUFFERED_MS", "4999"}};
  expect_refusal(
      "server.credit_ms = 5000 (from $FILE:2): expected at most engine.max_buffered_ms = 4999 (from "
      "TUTTI_ENGINE_MAX_BUFFERED_MS)");
  variables_ = {{"TUTTI_ENGINE_MAX_BUFFERED_MS", "5000"}};
  EXPECT_EQ(load().credit_ms, 5000);
}

}  // namespace
}  // namespace tutti
