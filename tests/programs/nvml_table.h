/* NVML's functions that cupeer intercepts, in rows as table.h has them, and their types. */
#ifndef NVML_TABLE_H
#define NVML_TABLE_H
#include <stdint.h>

typedef void *nvmlDevice_t;
typedef struct {
    char busId[16];
    unsigned domain, bus, device, pciDeviceId, pciSubSystemId, reserved[4];
} nvmlPciInfo_v2_t;
typedef struct {
    char busIdLegacy[16];
    unsigned domain, bus, device, pciDeviceId, pciSubSystemId;
    char busId[32];
} nvmlPciInfo_t;
typedef struct {
    unsigned char clusterUuid[16];
    int status;
    unsigned cliqueId;
    unsigned char state;
} nvmlGpuFabricInfo_t;
typedef struct {
    unsigned version;
    unsigned char clusterUuid[16];
    int status;
    unsigned cliqueId;
    unsigned char state;
    unsigned healthMask;
    unsigned char healthSummary; /* from version 3 on */
} nvmlGpuFabricInfoV_t;
typedef struct {
    unsigned fieldId, scopeId;
    long long timestamp, latencyUsec;
    unsigned valueType;
    int nvmlReturn;
    union {
        double d;
        unsigned ui;
        unsigned long long ull;
    } value;
} nvmlFieldValue_t;

/* NVML's functions: a device handle carries the mark. */
#define MARKED ((nvmlDevice_t)(uintptr_t)m)
#define NVML_TABLE(X)                                                                                         \
    X(nvmlDeviceGetP2PStatus, (nvmlDevice_t device1, nvmlDevice_t device2, int p2pIndex, int *p2pStatus),     \
      (device1, device2, p2pIndex, p2pStatus), (MARKED, MARKED, 0, &o->number), (uintptr_t)device1)           \
    X(nvmlDeviceGetTopologyCommonAncestor, (nvmlDevice_t device1, nvmlDevice_t device2, int *pathInfo),       \
      (device1, device2, pathInfo), (MARKED, MARKED, &o->number), (uintptr_t)device1)                         \
    X(nvmlDeviceGetNvLinkState, (nvmlDevice_t device, unsigned link, int *isActive), (device, link, isActive), \
      (MARKED, 1, &o->number), (uintptr_t)device)                                                             \
    X(nvmlDeviceGetNvLinkCapability,                                                                          \
      (nvmlDevice_t device, unsigned link, int capability, unsigned *capResult),                              \
      (device, link, capability, capResult), (MARKED, 1, 0, o->capabilities), (uintptr_t)device)              \
    X(nvmlDeviceGetNvLinkRemotePciInfo, (nvmlDevice_t device, unsigned link, nvmlPciInfo_v2_t *pci),          \
      (device, link, pci), (MARKED, 1, &o->pci_v2), (uintptr_t)device)                                        \
    X(nvmlDeviceGetNvLinkRemotePciInfo_v2, (nvmlDevice_t device, unsigned link, nvmlPciInfo_t *pci),          \
      (device, link, pci), (MARKED, 1, &o->pci), (uintptr_t)device)                                           \
    X(nvmlDeviceGetNvLinkRemoteDeviceType, (nvmlDevice_t device, unsigned link, int *pNvLinkDeviceType),      \
      (device, link, pNvLinkDeviceType), (MARKED, 1, &o->number), (uintptr_t)device)                          \
    X(nvmlDeviceGetGpuFabricInfo, (nvmlDevice_t device, nvmlGpuFabricInfo_t *gpuFabricInfo),                  \
      (device, gpuFabricInfo), (MARKED, &o->fabric), (uintptr_t)device)                                       \
    X(nvmlDeviceGetGpuFabricInfoV, (nvmlDevice_t device, nvmlGpuFabricInfoV_t *gpuFabricInfo),                \
      (device, gpuFabricInfo), (MARKED, &o->fabric_v), (uintptr_t)device)                                     \
    X(nvmlDeviceGetFieldValues, (nvmlDevice_t device, int valuesCount, nvmlFieldValue_t *values),             \
      (device, valuesCount, values), (MARKED, 2, o->fields), (uintptr_t)device)
#endif
