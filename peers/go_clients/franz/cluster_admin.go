package main

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kadm"

	"headwater.test/go_clients/lines"
)

func setQuota(request *lines.Request) (any, error) {
	return with(request, func(ctx context.Context, admin *kadm.Client) (any, error) {
		done, err := admin.AlterClientQuotas(ctx, []kadm.AlterClientQuotaEntry{{
			Entity: kadm.ClientQuotaEntity{{Type: "client-id", Name: &request.Client}},
			Ops:    []kadm.AlterClientQuotaOp{{Key: "producer_byte_rate", Value: request.Rate}},
		}})
		if err != nil {
			return nil, err
		}
		return nil, done[0].Err
	})
}

func quotas(request *lines.Request) (any, error) {
	return with(request, func(ctx context.Context, admin *kadm.Client) (any, error) {
		described, err := admin.DescribeClientQuotas(ctx, true, []kadm.DescribeClientQuotaComponent{
			{Type: "client-id", MatchType: kadm.QuotasMatchType(0), MatchName: &request.Client},
		})
		found := map[string]float64{}
		for _, quota := range described {
			for _, value := range quota.Values {
				found[value.Key] = value.Value
			}
		}
		return found, err
	})
}

func logDirs(request *lines.Request) (any, error) {
	return with(request, func(ctx context.Context, admin *kadm.Client) (any, error) {
		all, err := admin.DescribeAllLogDirs(ctx, nil)
		sizes := map[string]int64{}
		all.Each(func(dir kadm.DescribedLogDir) {
			err = errors.Join(err, dir.Err)
			dir.Topics.Each(func(each kadm.DescribedLogDirPartition) {
				sizes[lines.Place(each.Topic, each.Partition)] = each.Size
			})
		})
		return sizes, err
	})
}

func one(request *lines.Request) kadm.TopicsSet {
	wanted := kadm.TopicsSet{}
	wanted.Add(request.Topic, request.Partition)
	return wanted
}

func producers(request *lines.Request) (any, error) {
	return with(request, func(ctx context.Context, admin *kadm.Client) (any, error) {
		described, err := admin.DescribeProducers(ctx, one(request))
		found := []map[string]any{}
		described.EachPartition(func(partition kadm.DescribedProducersPartition) {
			err = errors.Join(err, partition.Err)
			for _, each := range partition.ActiveProducers {
				found = append(found, map[string]any{
					"producer": each.ProducerID, "epoch": each.ProducerEpoch, "sequence": each.LastSequence,
				})
			}
		})
		return found, err
	})
}

func transactions(request *lines.Request) (any, error) {
	return with(request, func(ctx context.Context, admin *kadm.Client) (any, error) {
		listed, err := admin.ListTransactions(ctx, nil, nil)
		return listed.TransactionalIDs(), err
	})
}

func electLeader(request *lines.Request) (any, error) {
	return with(request, func(ctx context.Context, admin *kadm.Client) (any, error) {
		done, err := admin.ElectLeaders(ctx, kadm.ElectPreferredReplica, one(request))
		if err != nil {
			return nil, err
		}
		return nil, done[request.Topic][request.Partition].Err
	})
}

func reassign(request *lines.Request) (any, error) {
	return with(request, func(ctx context.Context, admin *kadm.Client) (any, error) {
		wanted := kadm.AlterPartitionAssignmentsReq{}
		wanted.Assign(request.Topic, request.Partition, []int32{request.Broker})
		done, err := admin.AlterPartitionAssignments(ctx, wanted)
		if err != nil {
			return nil, err
		}
		return nil, done.Error()
	})
}

func listReassignments(request *lines.Request) (any, error) {
	return with(request, func(ctx context.Context, admin *kadm.Client) (any, error) {
		listed, err := admin.ListPartitionReassignments(ctx, one(request))
		found := []string{}
		for _, each := range listed.Sorted() {
			found = append(found, lines.Place(each.Topic, each.Partition))
		}
		return found, err
	})
}
