namespace Whimbrel.Acme;

/// <summary>
/// The right of one node to order, as a lease in the store. Extended while it is held. A node that dies or hangs loses
/// it after a minute, and one that cannot extend it cancels its order.
/// </summary>
internal sealed class AcmeLease : IAsyncDisposable
{
    internal static readonly TimeSpan Duration = TimeSpan.FromMinutes(1);

    private readonly CancellationTokenSource _end;
    private readonly AcmeRecords _records;
    private readonly string _node;
    private readonly Task _extending;

    private AcmeLease(AcmeRecords records, string node, TimeSpan limit, CancellationToken stop)
    {
        _records = records;
        _node = node;
        _end = CancellationTokenSource.CreateLinkedTokenSource(stop);
        _end.CancelAfter(limit);
        _extending = ExtendAsync(_end.Token);
    }

    /// <summary>Cancelled when the lease is lost, or the time limit has passed.</summary>
    internal CancellationToken Stop => _end.Token;

    /// <summary>Takes the lease. Returns null if another node has it.</summary>
    internal static async Task<AcmeLease?> TryTakeAsync(AcmeRecords records, string node, TimeSpan limit,
        CancellationToken stop) =>
        await records.TryLeaseAsync(node, Duration, stop).ConfigureAwait(false)
            ? new AcmeLease(records, node, limit, stop)
            : null;

    private async Task ExtendAsync(CancellationToken stop)
    {
        try
        {
            while (true)
            {
                await Task.Delay(Duration / 3, stop).ConfigureAwait(false);
                if (!await _records.TryLeaseAsync(_node, Duration, stop).ConfigureAwait(false)) break;
            }
        }
        catch (Exception)
        {
            // Cancelled, or the store fails: another node may order soon.
        }

        await _end.CancelAsync().ConfigureAwait(false);
    }

    public async ValueTask DisposeAsync()
    {
        await _end.CancelAsync().ConfigureAwait(false);
        await _extending.ConfigureAwait(false);
        _end.Dispose();
        try
        {
            await _records.EndLeaseAsync(_node).ConfigureAwait(false);
        }
        catch (Exception)
        {
            // It ends by itself after a minute.
        }
    }
}
