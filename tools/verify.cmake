# inlay_verify: ONNX node tests. Debian's libonnx-dev ships the compiled schema.
find_package(Protobuf REQUIRED)
find_library(ONNX_PROTO_LIBRARY onnx_proto REQUIRED)
add_library(inlay_verify STATIC verify.cpp onnx_check.cpp onnx_node.cpp onnx_tensor.cpp onnx_attention.cpp onnx_linear.cpp)
target_link_libraries(inlay_verify PUBLIC inlay_cpu inlay_npu inlay_reference PRIVATE ${ONNX_PROTO_LIBRARY} protobuf::libprotobuf)
target_include_directories(inlay_verify PUBLIC ${PROJECT_SOURCE_DIR})
target_compile_definitions(inlay_verify PRIVATE ONNX_ML=1 ONNX_NAMESPACE=onnx)
inlay_warnings(inlay_verify)
