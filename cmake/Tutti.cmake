# Two helpers, so that a folder's CMakeLists.txt is a list of files and what they use.

# tutti_library(NAME SOURCES file... [DEPS target...])
# A static library `tutti_NAME`; headers are included from the root: #include "config/cache_config.hpp".
function(tutti_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPS" ${ARGN})
  add_library(tutti_${name} STATIC ${arg_SOURCES})
  target_include_directories(tutti_${name} PUBLIC ${PROJECT_SOURCE_DIR})
  target_link_libraries(tutti_${name} PUBLIC tutti_options ${arg_DEPS})
endfunction()

# What every test includes, parsed once: GoogleTest anew takes a quarter of a test's compile time.
function(tutti_test_headers)
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/test_headers.cpp CONTENT "int main() {}\n")
  add_executable(tutti_test_headers EXCLUDE_FROM_ALL ${PROJECT_BINARY_DIR}/test_headers.cpp)
  target_link_libraries(tutti_test_headers PRIVATE tutti_options fmt::fmt GTest::gmock)
  target_compile_options(tutti_test_headers PRIVATE ${tutti_test_flags})
  target_precompile_headers(tutti_test_headers PRIVATE <gmock/gmock.h>)
endfunction()

# Tests are optimised less than what they test: another fifth. GCC 12 then finds faults in its own std::string, which these
# warnings are about.
set(tutti_test_flags -O1 -Wno-array-bounds -Wno-restrict -Wno-stringop-overflow)
list(JOIN tutti_test_flags "$<SEMICOLON>" tutti_test_flags)
set(tutti_test_flags $<$<CONFIG:Release>:${tutti_test_flags}>)

# tutti_test(NAME LABEL label SOURCES file... [DEPS target...])
# One GoogleTest program; each of its cases becomes a CTest test with the label.
function(tutti_test name)
  cmake_parse_arguments(arg "" "LABEL" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_DEPS} GTest::gmock GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE TUTTI_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/data"
                                             TUTTI_MODELS="${PROJECT_SOURCE_DIR}/models")
  target_compile_options(${name} PRIVATE ${tutti_test_flags})
  target_precompile_headers(${name} REUSE_FROM tutti_test_headers)
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 PROPERTIES LABELS "${arg_LABEL}" TIMEOUT 300)
endfunction()
