# Debian's libcaf-dev ships no CMake package: headers and one library per module.
#
#   find_package(CAF REQUIRED [COMPONENTS io openssl])   ->   CAF::core, CAF::io, CAF::openssl

find_path(CAF_INCLUDE_DIR NAMES caf/all.hpp)
find_library(CAF_CORE_LIBRARY NAMES caf_core)
mark_as_advanced(CAF_INCLUDE_DIR CAF_CORE_LIBRARY)

if(CAF_INCLUDE_DIR AND EXISTS "${CAF_INCLUDE_DIR}/caf/config.hpp")
  # "#define CAF_VERSION 1706" is 0.17.6.
  file(STRINGS "${CAF_INCLUDE_DIR}/caf/config.hpp" caf_version_line REGEX "^#define CAF_VERSION [0-9]+")
  if(NOT caf_version_line AND EXISTS "${CAF_INCLUDE_DIR}/caf/detail/build_config.hpp")
    file(STRINGS "${CAF_INCLUDE_DIR}/caf/detail/build_config.hpp" caf_version_line
         REGEX "^#define CAF_VERSION [0-9]+")
  endif()
  string(REGEX MATCH "[0-9]+$" caf_version_number "${caf_version_line}")
  if(caf_version_number)
    math(EXPR caf_major "${caf_version_number} / 10000")
    math(EXPR caf_minor "(${caf_version_number} / 100) % 100")
    math(EXPR caf_patch "${caf_version_number} % 100")
    set(CAF_VERSION "${caf_major}.${caf_minor}.${caf_patch}")
  endif()
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CAF REQUIRED_VARS CAF_CORE_LIBRARY CAF_INCLUDE_DIR VERSION_VAR CAF_VERSION)

if(CAF_FOUND AND NOT TARGET CAF::core)
  add_library(CAF::core UNKNOWN IMPORTED)
  # SYSTEM includes: the headers are not clean under -Wpedantic -Wshadow.
  set_target_properties(CAF::core PROPERTIES IMPORTED_LOCATION "${CAF_CORE_LIBRARY}"
                                             INTERFACE_INCLUDE_DIRECTORIES "${CAF_INCLUDE_DIR}")
endif()

foreach(component ${CAF_FIND_COMPONENTS})
  find_library(CAF_${component}_LIBRARY NAMES caf_${component} REQUIRED)
  mark_as_advanced(CAF_${component}_LIBRARY)
  if(NOT TARGET CAF::${component})
    add_library(CAF::${component} UNKNOWN IMPORTED)
    set_target_properties(CAF::${component} PROPERTIES IMPORTED_LOCATION "${CAF_${component}_LIBRARY}"
                                                       INTERFACE_LINK_LIBRARIES CAF::core)
  endif()
endforeach()
if(TARGET CAF::openssl AND TARGET CAF::io)
  set_property(TARGET CAF::openssl APPEND PROPERTY INTERFACE_LINK_LIBRARIES CAF::io)
endif()
