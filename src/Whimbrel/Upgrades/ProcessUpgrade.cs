using System.Net;
using System.Net.Sockets;
using Whimbrel.Diagnostics;
using Whimbrel.Engines;
using Whimbrel.Linux;

namespace Whimbrel;

/// <summary>
/// Replaces a process without refusing or resetting a connection. The new process takes the listening sockets of the
/// old one over a Unix socket, and the old one stops accepting and drains. Set the same object as <c>Upgrade</c> in the
/// options of all servers and datagram sockets, start them, then call <see cref="ReadyAsync"/>. If no process answers
/// at the path, the starts bind as usual. Thread-safe. Linux, on the epoll and io_uring engines.
/// </summary>
/// <remarks>
/// <para>A new process that fails or ends before <see cref="ReadyAsync"/> changes nothing: the old one continues to
/// accept. A second new process at the same time is refused, and so is a process of another user.</para>
/// <para>A socket is found by its address: the one that the options of the old process had, or the one to which it is
/// bound. An address that the old process does not have is bound; one that the new process does not have is drained
/// and closed by the old one. Options of a bind (<c>DualMode</c>, <c>ReusePort</c>) stay as the first process set
/// them.</para>
/// </remarks>
public sealed class ProcessUpgrade : IAsyncDisposable
{
    private readonly UnixDomainSocketEndPoint _endPoint;
    private readonly Lock _gate = new(); // guards the fields below
    private readonly List<IUpgradable> _participants = [];
    private readonly TaskCompletionSource _replaced = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private Task<UpgradeClaim?>? _claim;
    private Task? _ready;
    private UpgradeListener? _listener;
    private volatile bool _isReplaced;
    private bool _isReady; // sockets that were not taken are closed
    private bool _isDisposed;

    /// <summary>Creates an upgrade. Opens nothing before the start of a server, or <see cref="ReadyAsync"/>.</summary>
    /// <param name="path">Path of the Unix socket at which an old process answers, for example
    /// <c>/run/chat/chat.upgrade</c>. The folder must exist. The same in all versions of the program; other programs
    /// need another one.</param>
    /// <exception cref="ArgumentException">The path is empty, an abstract name, or too long.</exception>
    /// <exception cref="PlatformNotSupportedException">The system is not Linux.</exception>
    public ProcessUpgrade(string path)
    {
        ArgumentNullException.ThrowIfNull(path);
        if (!KernelProbe.IsLinux)
            throw new PlatformNotSupportedException("Upgrades of a process need Linux: leave Upgrade null here.");
        _endPoint = EndPointRules.StatusAt(path, out string? mistake)
            ?? throw new ArgumentException($"The path of an upgrade {mistake}.", nameof(path));
    }

    /// <summary>Absolute path of the Unix socket.</summary>
    public string Path => _endPoint.ToString();

    /// <summary>
    /// Maximum time between the sending of the sockets by the old process and <see cref="ReadyAsync"/> of the new one,
    /// measured by the old process. It also limits the wait of <see cref="ReadyAsync"/> for the old one to stop
    /// accepting. 1 s to 1 h; default 1 minute.
    /// </summary>
    /// <exception cref="ArgumentOutOfRangeException">The value is outside this range.</exception>
    public TimeSpan ReadyLimit
    {
        get;
        init => field = value >= TimeSpan.FromSeconds(1) && value <= TimeSpan.FromHours(1)
            ? value
            : throw new ArgumentOutOfRangeException(nameof(value), value, "1 s to 1 h");
    } = TimeSpan.FromMinutes(1);

    /// <summary>
    /// Id of the old process that passed its sockets to this one; null if there was none, or before the first start.
    /// </summary>
    public int? OldProcess { get; private set; }

    /// <summary>
    /// True from the moment at which a new process is ready. The servers of this one accept no longer, and their
    /// sessions should end: clients that reconnect reach the new process.
    /// </summary>
    public bool IsReplaced => _isReplaced;

    /// <summary>
    /// Completes when a new process has replaced this one; a program then stops its servers, which drain, and ends.
    /// Never fails.
    /// </summary>
    public Task Replaced => _replaced.Task;

    /// <summary>
    /// Completes the upgrade: the old process stops accepting, and this one answers at the path from now on. Call it
    /// once, after the starts of all servers and datagram sockets; later calls return the same task. From here on a
    /// failure of this process is not covered by the old one.
    /// </summary>
    /// <param name="cancellationToken">Ends the wait only.</param>
    /// <exception cref="NetworkException">The old process did not wait any longer
    /// (<see cref="ReadyLimit"/>), the path cannot be opened, or another process without a predecessor has opened it
    /// meanwhile.</exception>
    /// <exception cref="InvalidOperationException">No server or datagram socket with this upgrade is started. An old
    /// process continues to accept.</exception>
    /// <exception cref="ObjectDisposedException">The upgrade was disposed.</exception>
    public Task ReadyAsync(CancellationToken cancellationToken = default)
    {
        lock (_gate)
        {
            ObjectDisposedException.ThrowIf(_isDisposed, this);
            return (_ready ??= BecomeReadyAsync()).WaitAsync(cancellationToken);
        }
    }

    private async Task BecomeReadyAsync()
    {
        UpgradeClaim? claim = await AskAsync().ConfigureAwait(false);
        if (Participants.Length == 0)
        {
            claim?.Dispose();
            throw new InvalidOperationException($"No server or datagram socket with the upgrade {Path} is started. Set "
                + "Upgrade in their options, start them, and call ReadyAsync after the last start.");
        }

        string left;
        lock (_gate) (_isReady, left) = (true, claim?.Left ?? "");
        string? problem = claim is null ? null
            : await OnThread("whimbrel-ready", () => claim.BeReady(ReadyLimit)).ConfigureAwait(false);
        // Also after a problem: there is no way back, and this process serves.
        foreach (IUpgradable participant in Participants) participant.Own();
        UpgradeListener listener = UpgradeListener.Open(_endPoint, Offer, replaces: claim is not null);
        lock (_gate)
        {
            if (!_isDisposed) (_listener, listener) = (listener, null!);
        }

        if (listener is not null) listener.Close(deletesPath: true);
        claim?.TellOwned();
        claim?.Dispose();
        if (problem is not null) Report(problem);
        if (left.Length > 0)
            Report($"No server or datagram socket here has taken these addresses of process {OldProcess}, so that it "
                + $"drains and closes them: {left}. If this process starts to listen there later, clients are refused "
                + "in between: start it before ReadyAsync.");
    }

    /// <summary>
    /// Ends the upgrade: closes and deletes the path, unless a new process has it, and closes sockets that no server
    /// has taken. Call it after the stop of the servers.
    /// </summary>
    public async ValueTask DisposeAsync()
    {
        UpgradeListener? listener;
        Task<UpgradeClaim?>? claim;
        lock (_gate)
        {
            if (_isDisposed) return;
            _isDisposed = true;
            (listener, _listener) = (_listener, null);
            claim = _claim;
        }

        listener?.Close(deletesPath: !_isReplaced);
        try
        {
            if (claim is not null) (await claim.ConfigureAwait(false))?.Dispose();
        }
        catch (NetworkException)
        {
            // The start has thrown it.
        }
    }

    // ------------------------------------------------------------------ for servers and datagram sockets

    /// <summary>
    /// Returns where to listen: for each address the sockets of the old process, or the address itself if it has none.
    /// </summary>
    internal async ValueTask<List<EndPoint>> ClaimAsync(IReadOnlyList<EndPoint> addresses, SocketType type)
    {
        UpgradeClaim? claim = await AskAsync().ConfigureAwait(false);
        List<EndPoint> found = [];
        lock (_gate)
        {
            if (claim is null || _isReady) return [.. addresses];
            foreach (EndPoint address in addresses)
            {
                List<InheritedSocket> claimed = address is InheritedSocket ? [] : claim.Take(address, type);
                if (claimed.Count > 0) found.AddRange(claimed);
                else found.Add(address);
            }
        }

        return found;
    }

    /// <summary>Adds to an address in use the reason why its socket was not taken over.</summary>
    internal async Task ExplainAsync(Task bind)
    {
        try
        {
            await bind.ConfigureAwait(false);
        }
        catch (NetworkException e) when (e.Error.Code == Errno.EADDRINUSE && OldProcess is null)
        {
            throw new NetworkException(e.Error with
            {
                Message = $"{e.Error.Message} No process answered at {Path}, so no socket was taken over: the process "
                    + "at the address has another path for its upgrade or none, or has not called ReadyAsync yet. See "
                    + "docs/symptoms/upgrade-failed.md, or: whimbrel explain upgrade-failed."
            });
        }
    }

    /// <summary>True if an old process has given sockets, and still serves as well.</summary>
    internal bool IsPending
    {
        get
        {
            lock (_gate) return OldProcess is not null && !_isReady;
        }
    }

    internal void Add(IUpgradable participant)
    {
        lock (_gate)
        {
            if (!_participants.Contains(participant)) _participants.Add(participant);
        }
    }

    internal void Remove(IUpgradable participant)
    {
        lock (_gate) _participants.Remove(participant);
    }

    /// <summary>Adds the mistake if the engine cannot take part.</summary>
    internal static void Check(OptionErrors errors, ProcessUpgrade? upgrade, Engine engine)
    {
        if (upgrade is null || (engine.HasWatchdog && engine.Kind != EngineKind.Portable)) return;
        errors.Add($"Upgrade = {upgrade.Path}, the {engine.KindName} engine gives no sockets to another process: use "
            + "epoll or io_uring");
    }

    // ------------------------------------------------------------------ both ends

    private IUpgradable[] Participants
    {
        get
        {
            lock (_gate) return [.. _participants];
        }
    }

    private Task<UpgradeClaim?> AskAsync()
    {
        lock (_gate)
        {
            ObjectDisposedException.ThrowIf(_isDisposed, this);
            return _claim ??= OnThread("whimbrel-claim", () =>
            {
                UpgradeClaim? claim = UpgradeClaim.Ask(_endPoint);
                OldProcess = claim?.OldProcess;
                return claim;
            });
        }
    }

    /// <summary>Has one conversation with a new process. On a thread of its own.</summary>
    private void Offer(UpgradeChannel peer)
    {
        IUpgradable[] participants = Participants;
        UpgradeOffer offer = new(peer, participants, ReadyLimit);
        string? fault;
        try
        {
            fault = offer.Run();
        }
        catch (Exception e)
        {
            // An exception on this thread would end the process.
            fault = ErrorText.Of(e);
        }

        if (fault is not null)
        {
            Report($"The upgrade by process {peer.PeerProcess} has failed: {fault}. This process continues to accept.");
            return;
        }

        _isReplaced = true;
        try
        {
            Task.WhenAll(participants.Select(p => p.ReleaseAsync(offer.Taken))).GetAwaiter().GetResult();
        }
        catch (Exception e)
        {
            Report($"Sockets were not closed after the upgrade by process {peer.PeerProcess}: {ErrorText.Of(e)}.");
        }

        offer.EndRelease();
        UpgradeListener? listener;
        lock (_gate) (listener, _listener) = (_listener, null);
        listener?.Close(deletesPath: false);
        _replaced.TrySetResult();
    }

    private void Report(string message)
    {
        if (Participants is [{ } first, ..])
            first.Report(new DiagnosticEvent(DiagnosticEventKind.Upgrade, message, "upgrade-failed.md"));
    }

    /// <summary>Runs blocking work on a thread of its own, because the pool may be busy.</summary>
    private static Task<T> OnThread<T>(string name, Func<T> work)
    {
        TaskCompletionSource<T> done = new(TaskCreationOptions.RunContinuationsAsynchronously);
        new Thread(() =>
        {
            try
            {
                done.SetResult(work());
            }
            catch (Exception e)
            {
                done.SetException(e);
            }
        })
        { IsBackground = true, Name = name }.UnsafeStart();
        return done.Task;
    }
}
