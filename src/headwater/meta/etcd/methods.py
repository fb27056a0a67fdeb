"""The etcd methods that are called: their paths, and the types of requests and answers."""

from headwater.meta.etcd.rpc import etcd_pb2 as pb
from headwater.meta.grpc_channels import GrpcMethod

RANGE = GrpcMethod("/etcdserverpb.KV/Range", pb.RangeRequest, pb.RangeResponse)
TXN = GrpcMethod("/etcdserverpb.KV/Txn", pb.TxnRequest, pb.TxnResponse)
COMPACT = GrpcMethod("/etcdserverpb.KV/Compact", pb.CompactionRequest, pb.CompactionResponse)
WATCH = GrpcMethod("/etcdserverpb.Watch/Watch", pb.WatchRequest, pb.WatchResponse)
LEASE_GRANT = GrpcMethod(
    "/etcdserverpb.Lease/LeaseGrant", pb.LeaseGrantRequest, pb.LeaseGrantResponse
)
LEASE_REVOKE = GrpcMethod(
    "/etcdserverpb.Lease/LeaseRevoke", pb.LeaseRevokeRequest, pb.LeaseRevokeResponse
)
LEASE_KEEP_ALIVE = GrpcMethod(
    "/etcdserverpb.Lease/LeaseKeepAlive", pb.LeaseKeepAliveRequest, pb.LeaseKeepAliveResponse
)
STATUS = GrpcMethod("/etcdserverpb.Maintenance/Status", pb.StatusRequest, pb.StatusResponse)
AUTHENTICATE = GrpcMethod(
    "/etcdserverpb.Auth/Authenticate", pb.AuthenticateRequest, pb.AuthenticateResponse
)
