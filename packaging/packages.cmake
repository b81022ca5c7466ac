# Packages by CPack: Debian's, a component each, and an archive of all (packaging/README.md).
#   cmake --preset release -DCMAKE_INSTALL_PREFIX=/usr && cmake --build --preset release
#   cpack --config build/release/CPackConfig.cmake -G DEB
set(CPACK_PACKAGE_NAME gshard)
set(CPACK_PACKAGE_VENDOR gshard)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_PACKAGE_CONTACT "gshard developers <gshard@example.org>")
set(CPACK_SET_DESTDIR OFF)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_ARCHIVE_COMPONENT_INSTALL OFF)
include(CPackComponent)
# Manuals belong to the programs.
set(CPACK_COMPONENT_PROGRAMS_GROUP gshard)
set(CPACK_COMPONENT_MANUALS_GROUP gshard)
set(CPACK_COMPONENT_MPI_GROUP mpi)
set(CPACK_COMPONENT_DEVELOPMENT_GROUP development)
set(CPACK_COMPONENTS_ALL programs manuals development)
if(TARGET gshard_mpi)
  list(APPEND CPACK_COMPONENTS_ALL mpi)
endif()

# Debian's names, sections and texts. The first line of a description is its summary.
set(CPACK_DEBIAN_GSHARD_PACKAGE_NAME gshard)
set(CPACK_DEBIAN_GSHARD_PACKAGE_SECTION science)
set(CPACK_DEBIAN_GSHARD_DESCRIPTION "sharding of large models: memory, time, verification
Reads the program that JAX or XLA prints (HLO text, StableHLO) and sharding
annotations, infers all other shardings, partitions it for one device,
estimates what it costs and executes it on an emulated mesh of up to 2048
devices, compared with the unpartitioned program.")
set(CPACK_DEBIAN_MPI_PACKAGE_NAME gshard-mpi)
set(CPACK_DEBIAN_MPI_PACKAGE_SECTION science)
# Open MPI starts programs of its own, even for one rank.
set(CPACK_DEBIAN_MPI_PACKAGE_DEPENDS "gshard (= ${PROJECT_VERSION}-1), openmpi-bin")
set(CPACK_DEBIAN_MPI_DESCRIPTION "sharding of large models: emulation over several machines
gshard-run-mpi executes a program on an emulated mesh as gshard-run does, over
processes that MPI starts on one machine or many, with the same bits.")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libgshard-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SHLIBDEPS OFF)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS
  "libexpected-dev, libfmt-dev, libhwy-dev, libopenblas-dev, libre2-dev, robin-map-dev, libtbb-dev, libzip-dev, zlib1g-dev")
set(CPACK_DEBIAN_DEVELOPMENT_DESCRIPTION "sharding of large models: development files
Headers, static libraries and a CMake package of gshard: reading and writing of
HLO text, propagation of shardings, partitioning, cost estimates, and the
emulated mesh.")

# What Debian's policy asks of each package: copyright and changelog.
file(READ ${PROJECT_SOURCE_DIR}/LICENSE license)
configure_file(${CMAKE_CURRENT_LIST_DIR}/debian/copyright ${PROJECT_BINARY_DIR}/debian/copyright COPYONLY)
string(TIMESTAMP GSHARD_PACKAGE_DATE "%a, %d %b %Y %H:%M:%S +0000" UTC)
configure_file(${CMAKE_CURRENT_LIST_DIR}/debian/changelog.in ${PROJECT_BINARY_DIR}/debian/changelog @ONLY)
find_program(GZIP_PROGRAM gzip)
execute_process(COMMAND ${GZIP_PROGRAM} -9nkf changelog WORKING_DIRECTORY ${PROJECT_BINARY_DIR}/debian)
foreach(package gshard:programs gshard-mpi:mpi libgshard-dev:development)
  string(REPLACE : ";" package ${package})
  list(GET package 0 name)
  list(GET package 1 component)
  if(component STREQUAL mpi AND NOT TARGET gshard_mpi)
    continue()
  endif()
  install(FILES ${PROJECT_BINARY_DIR}/debian/copyright DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${name}
    COMPONENT ${component})
  install(FILES ${PROJECT_BINARY_DIR}/debian/changelog.gz RENAME changelog.Debian.gz
    DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${name} COMPONENT ${component})
endforeach()
# gshard-run's page is of gshard-run-mpi, too.
if(TARGET gshard_mpi)
  file(WRITE ${PROJECT_BINARY_DIR}/debian/gshard-run-mpi.1 ".so man1/gshard-run.1\n")
  execute_process(COMMAND ${GZIP_PROGRAM} -9nkf gshard-run-mpi.1 WORKING_DIRECTORY ${PROJECT_BINARY_DIR}/debian)
  install(FILES ${PROJECT_BINARY_DIR}/debian/gshard-run-mpi.1.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT mpi)
endif()
include(CPack)
