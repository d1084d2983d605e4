# Two helpers, so that a folder's CMakeLists.txt is a list of files and what they use.

# tutti_library(NAME SOURCES file... [DEPS target...])
# A static library `tutti_NAME`; headers are included from the root: #include "config/cache_config.hpp".
function(tutti_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPS" ${ARGN})
  add_library(tutti_${name} STATIC ${arg_SOURCES})
  target_include_directories(tutti_${name} PUBLIC ${PROJECT_SOURCE_DIR})
  target_link_libraries(tutti_${name} PUBLIC tutti_options ${arg_DEPS})
endfunction()

# tutti_test(NAME LABEL label SOURCES file... [DEPS target...])
# One GoogleTest program; each of its cases becomes a CTest test with the label.
function(tutti_test name)
  cmake_parse_arguments(arg "" "LABEL" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_DEPS} GTest::gmock GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE TUTTI_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/data"
                                             TUTTI_MODELS="${PROJECT_SOURCE_DIR}/models")
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 PROPERTIES LABELS "${arg_LABEL}" TIMEOUT 300)
endfunction()
