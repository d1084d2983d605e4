# cmake -DOUTPUT=web_files.cpp -DFILES=a;b -P EmbedFiles.cmake
# Writes the definition of tutti::web_files(), net/pages.hpp.

set(arrays "")
set(entries "")
set(index 0)
foreach(file IN LISTS FILES)
  get_filename_component(name ${file} NAME)
  file(SHA256 ${file} digest)
  file(READ ${file} bytes HEX)
  # A trailing zero, so that an empty file is an array too.
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
  string(APPEND arrays "constexpr unsigned char file_${index}[] = {${bytes}0};\n")
  string(APPEND entries "    {\"${name}\", text(file_${index}), \"${digest}\"},\n")
  math(EXPR index "${index} + 1")
endforeach()

file(WRITE ${OUTPUT} "#include \"net/pages.hpp\"

namespace tutti {
namespace {

${arrays}
template <size_t size>
std::string_view text(const unsigned char (&bytes)[size]) {
  return {reinterpret_cast<const char*>(bytes), size - 1};
}

const WebFile files[] = {
${entries}};

}  // namespace

std::span<const WebFile> web_files() { return files; }

}  // namespace tutti
")
