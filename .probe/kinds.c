#define _GNU_SOURCE
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/wait.h>
#include <sys/syscall.h>
#include <time.h>
#include <dlfcn.h>
static const char* name(CUresult r){const char*s="?";cuGetErrorName(r,&s);return s;}
static void cb(void*d,CUlogLevel l,char*m,size_t n){printf("    [cb tid==pid %d level %d len %zu] %s\n",(int)(syscall(SYS_gettid)==getpid()),l,n,m);}
static void attrs(const char*what,CUdeviceptr p){
  int ids[]={2,8,9,10,7,11,12,13,14,17,20,1};unsigned long long v[12];void*d[12];
  for(int i=0;i<12;i++){v[i]=0xeeeeeeeeeeeeeeeeull;d[i]=&v[i];}
  CUresult r=cuPointerGetAttributes(12,(CUpointer_attribute*)ids,d,p);
  printf("%s: %s type=%d managed=%d ord=%d legacy=%d buf=%llu start=%llx size=%llx mapped=%d handletypes=%llx pool=%llx block=%llu ctx=%llx ptr=%llx\n",what,name(r),(int)v[0],(int)(v[1]&255),(int)v[2],(int)v[3],v[4],v[5],v[6],(int)(v[7]&255),v[8],v[9],v[10],v[11],(unsigned long long)p);
  CUipcMemHandle h; printf("   get: %s\n",name(cuIpcGetMemHandle(&h,p)));
  CUmemGenericAllocationHandle g; r=cuMemRetainAllocationHandle(&g,(void*)p); printf("   retain: %s\n",name(r)); if(!r)cuMemRelease(g);
  CUdeviceptr b;size_t s; r=cuMemGetAddressRange(&b,&s,p); printf("   range: %s\n",name(r));
}
int main(int c,char**v){
  setvbuf(stdout,0,_IONBF,0);
  CUlogsCallbackHandle ch; printf("register before init: %s\n",name(cuLogsRegisterCallback(cb,0,&ch)));
  CUipcMemHandle h0; printf("get before init %s\n",name(cuIpcGetMemHandle(&h0,0x1000)));
  unsigned long long z=0; CUcontext cur=(void*)1; printf("ctxgetcurrent before init %s %p\n",name(cuCtxGetCurrent(&cur)),cur);
  printf("attr before init %s\n",name(cuPointerGetAttribute(&z,2,0x1000)));
  int p1[2],p2[2];pipe(p1);pipe(p2);
  pid_t k=fork();
  if(!k){ cuInit(0);CUdevice d;cuDeviceGet(&d,0);CUcontext x;cuDevicePrimaryCtxRetain(&x,d);cuCtxSetCurrent(x);
    CUipcMemHandle h;read(p1[0],&h,64);CUdeviceptr p=0;printf("child open %s\n",name(cuIpcOpenMemHandle(&p,h,1)));attrs("imported",p);attrs("imported+16",p+16);
    printf("child free(imported) %s\n",name(cuMemFree(p)));printf("close after %s\n",name(cuIpcCloseMemHandle(p)));printf("close again %s\n",name(cuIpcCloseMemHandle(p)));
    CUipcMemHandle q;memset(&q,0,64);printf("open zero %s\n",name(cuIpcOpenMemHandle(&p,q,1)));
    memset(&q,0xa5,64);printf("open garbage %s\n",name(cuIpcOpenMemHandle(&p,q,1)));
    for(int i=0;i<64;i+=4){q=h;((unsigned char*)&q)[i]^=0xff;CUresult r=cuIpcOpenMemHandle(&p,q,1);printf("open byte %d flipped %s\n",i,name(r));if(!r)cuIpcCloseMemHandle(p);}
    printf("handle:");for(int i=0;i<64;i++)printf(" %02x",((unsigned char*)&h)[i]);printf("  exporter pid %d\n",getppid());
    cuCtxSetCurrent(0);CUdeviceptr b;printf("close nocurrent %s\n",name(cuIpcCloseMemHandle(p)));
    printf("attrs nocurrent %s\n",name(cuPointerGetAttribute(&z,2,p)));
    fflush(stdout);_exit(0);}
  printf("init %s\n",name(cuInit(0)));
  CUdevice d;cuDeviceGet(&d,0);
  printf("attr without ctx %s\n",name(cuPointerGetAttribute(&z,2,0x1000)));
  CUcontext x;cuDevicePrimaryCtxRetain(&x,d);cuCtxSetCurrent(x);
  CUlogsCallbackHandle ch2; printf("register after init: %s\n",name(cuLogsRegisterCallback(cb,0,&ch2)));
  printf("unregister 2: %s\n",name(cuLogsUnregisterCallback(ch2)));
  CUdeviceptr a,b;cuMemAlloc(&a,1<<20);cuMemAlloc(&b,1000);
  attrs("malloc",a);attrs("malloc small+8",b+8);
  CUdeviceptr m;cuMemAllocManaged(&m,1<<20,1);attrs("managed",m);
  void*hp;cuMemAllocHost(&hp,4096);attrs("pinned",(CUdeviceptr)hp);
  void*rg=aligned_alloc(4096,8192);cuMemHostRegister(rg,8192,0);attrs("registered",(CUdeviceptr)rg);
  void*mm=malloc(100);attrs("plain malloc",(CUdeviceptr)mm);
  CUdeviceptr pl;printf("async %s\n",name(cuMemAllocAsync(&pl,1<<20,0)));attrs("pool default",pl);
  CUmemPoolProps pp;memset(&pp,0,sizeof pp);pp.allocType=1;pp.handleTypes=1;pp.location.type=1;pp.location.id=0;CUmemoryPool pool;
  printf("poolcreate %s\n",name(cuMemPoolCreate(&pool,&pp)));CUdeviceptr ps;cuMemAllocFromPoolAsync(&ps,1<<20,pool,0);cuStreamSynchronize(0);attrs("pool posixfd",ps);
  for(int t=0;t<2;t++){CUmemAllocationProp pr;memset(&pr,0,sizeof pr);pr.type=1;pr.requestedHandleTypes=t;pr.location.type=1;pr.location.id=0;size_t g;cuMemGetAllocationGranularity(&g,&pr,0);
   CUmemGenericAllocationHandle gh;cuMemCreate(&gh,g*2,&pr,0);CUdeviceptr va;cuMemAddressReserve(&va,g*2,0,0,0);cuMemMap(va,g*2,0,gh,0);CUmemAccessDesc ad={{1,0},3};cuMemSetAccess(va,g*2,&ad,1);attrs(t?"vmm posixfd":"vmm none",va);attrs("  +4096",va+4096);}
  CUdeviceptr f;cuMemAlloc(&f,1<<20);cuMemFree(f);attrs("freed",f);
  CUipcMemHandle h;cuIpcGetMemHandle(&h,a);write(p1[1],&h,64);
  int st;waitpid(k,&st,0);
  printf("range of malloc after: \n");attrs("malloc again",a);
  struct timespec t0,t1; int can; 
  for(int rep=0;rep<3;rep++){clock_gettime(1,&t0);for(int i=0;i<100000;i++)cuDeviceCanAccessPeer(&can,0,0);clock_gettime(1,&t1);printf("canaccess %.1f ns\n",((t1.tv_sec-t0.tv_sec)*1e9+t1.tv_nsec-t0.tv_nsec)/1e5);
   if(rep==1)cuLogsUnregisterCallback(ch);}
  CUdevice dd; clock_gettime(1,&t0);for(int i=0;i<20;i++){unsigned long long q[3];void*qq[3]={&q[0],&q[1],&q[2]};int id[3]={2,8,10};cuPointerGetAttributes(3,(void*)id,qq,a);}clock_gettime(1,&t1);printf("3 attrs %.1f ns\n",((t1.tv_sec-t0.tv_sec)*1e9+t1.tv_nsec-t0.tv_nsec)/20);
  // flags bits of an exiting process
  return 0;
}
