// Writes a clip's samples to standard output as s16le, for client tests in languages that read no FLAC.

#include <sndfile.h>

#include <array>
#include <cstdio>

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s CLIP\n", argv[0]);
    return 2;
  }
  SF_INFO info{};
  SNDFILE* const clip = sf_open(argv[1], SFM_READ, &info);
  if (clip == nullptr) {
    std::fprintf(stderr, "%s: %s\n", argv[1], sf_strerror(nullptr));
    return 1;
  }
  std::array<short, 8192> samples;
  sf_count_t count = 0;
  while ((count = sf_read_short(clip, samples.data(), samples.size())) > 0) {
    if (std::fwrite(samples.data(), sizeof(short), static_cast<size_t>(count), stdout) == 0) return 1;
  }
  sf_close(clip);
  return 0;
}
