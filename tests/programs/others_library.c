/* A library with names that look like the driver's and are not. */
int cudnnCreate(void) { return 1; }
int cublasCreate_v2(void) { return 2; }
int cuFooNotOurs(void) { return 3; }
int curl_easy_init(void) { return 4; }
int cuIpcOpenMemHandle_v3(void) { return 5; }
int cu(void) { return 6; }
int cuIpc;
