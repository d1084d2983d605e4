# What a Debian package holds, which `make package` writes: the program, the bundled model, its unit and its pages.
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)  # the program alone, not the tests

set(doc share/doc/tutti)
install(TARGETS tutti RUNTIME DESTINATION bin)
if(TARGET tutti_cuda)
  install(TARGETS tutti_cuda LIBRARY DESTINATION lib/tutti)
endif()
install(DIRECTORY models/tutti-en-mini DESTINATION share/tutti/models)
install(FILES models/README.md DESTINATION share/tutti/models)
install(FILES deploy/tutti.service DESTINATION lib/systemd/system)
install(FILES deploy/debian/tutti.toml DESTINATION /etc/tutti)
install(FILES README.md deploy/tutti.toml DESTINATION ${doc})
install(DIRECTORY docs/ DESTINATION ${doc} FILES_MATCHING PATTERN "*.md")
install(FILES deploy/haproxy.cfg deploy/nginx.conf deploy/alerts.yml deploy/grafana.json DESTINATION ${doc}/examples)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "The Tutti developers <tutti@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Streaming speech recognition server")
set(CPACK_PACKAGE_DESCRIPTION "Speech as text while it is said, for many clients at once, over WebSocket and HTTP.\n\
 With a small English model; loads WeNet Conformer models.")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION sound)
set(CPACK_DEBIAN_PACKAGE_DEPENDS adduser)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(debian ${PROJECT_SOURCE_DIR}/deploy/debian)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${debian}/conffiles ${debian}/postinst ${debian}/prerm ${debian}/postrm)
set(CPACK_STRIP_FILES ON)
# /etc is not below /usr.
set(CPACK_SET_DESTDIR ON)
set(CPACK_INSTALL_PREFIX /usr)
include(CPack)
