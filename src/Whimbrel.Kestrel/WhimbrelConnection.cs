using System.Buffers;
using System.Collections;
using System.Globalization;
using System.IO.Pipelines;
using System.Net;
using System.Net.Sockets;
using Microsoft.AspNetCore.Connections;
using Microsoft.AspNetCore.Connections.Features;
using Microsoft.AspNetCore.Http.Features;

namespace Whimbrel.Kestrel;

/// <summary>
/// Adapter from <see cref="ConnectionPipe"/> to Kestrel's connections. It is its own feature collection: it implements
/// the features of each connection, and keeps features set by others in a short list.
/// </summary>
/// <param name="pipe">The connection. Its halves are completed here, at the latest by disposal.</param>
/// <param name="over">Completed by disposal, or null.</param>
/// <param name="isMapped">
/// Whether the listener is an IPv6 one, so that IPv4 clients have IPv4-mapped addresses, as on their sockets.
/// </param>
internal sealed class WhimbrelConnection(ConnectionPipe pipe, TaskCompletionSource? over, bool isMapped = false)
    : ConnectionContext,
        IFeatureCollection,
        IConnectionIdFeature,
        IConnectionTransportFeature,
        IConnectionItemsFeature,
        IConnectionLifetimeFeature,
        IConnectionEndPointFeature,
        IConnectionSocketFeature,
        IMemoryPoolFeature
{
    private static readonly Type[] s_own =
    [
        typeof(IConnectionIdFeature), typeof(IConnectionTransportFeature), typeof(IConnectionItemsFeature),
        typeof(IConnectionLifetimeFeature),
        typeof(IConnectionEndPointFeature), typeof(IConnectionSocketFeature), typeof(IMemoryPoolFeature),
    ];

    private List<KeyValuePair<Type, object?>>? _set;
    private int _revision;
    private string? _id;
    private IDuplexPipe? _transport;
    private IDictionary<object, object?>? _items;
    private CancellationToken? _closed;
    private EndPoint? _local;
    private EndPoint? _remote;

    // ------------------------------------------------------------------ the connection

    public override string ConnectionId
    {
        get => _id ??= string.Create(CultureInfo.InvariantCulture, $"W{pipe.Id:X}");
        set => _id = value;
    }

    public override IDuplexPipe Transport
    {
        get => _transport ?? pipe;
        set => _transport = value;
    }

    public override IDictionary<object, object?> Items
    {
        get => _items ??= new ConnectionItems();
        set => _items = value;
    }

    /// <summary>
    /// Token that is cancelled when the peer has sent FIN, as with the stock transport, or the connection has ended.
    /// </summary>
    public override CancellationToken ConnectionClosed
    {
        get => _closed ??= pipe.InputEnded;
        set => _closed = value;
    }

    public override EndPoint? LocalEndPoint
    {
        get => _local ??= Seen(pipe.LocalEndPoint);
        set => _local = value;
    }

    public override EndPoint? RemoteEndPoint
    {
        get => _remote ??= Seen(pipe.RemoteEndPoint);
        set => _remote = value;
    }

    public override IFeatureCollection Features => this;

    MemoryPool<byte> IMemoryPoolFeature.MemoryPool => MemoryPool<byte>.Shared;

    Socket IConnectionSocketFeature.Socket =>
        pipe.Socket ?? throw new InvalidOperationException("The connection has ended, or its engine has no sockets.");

    /// <summary>
    /// Resets the connection; after the peer's FIN sends FIN instead, as the stock transport does. Kestrel aborts a
    /// connection if its client sends FIN during a request, and data flushed before, such as a 400, must arrive.
    /// </summary>
    public override void Abort(ConnectionAbortedException abortReason)
    {
        if (pipe.InputEnded.IsCancellationRequested && pipe.IsConnected) pipe.Close();
        else pipe.Abort(abortReason);
    }

    void IConnectionLifetimeFeature.Abort() =>
        Abort(new ConnectionAbortedException("The connection was aborted by IConnectionLifetimeFeature.Abort()."));

    /// <summary>
    /// Completes both halves and closes the connection: flushed data is sent, within the limits of a close.
    /// </summary>
    public override ValueTask DisposeAsync()
    {
        pipe.Dispose();
        over?.TrySetResult();
        return base.DisposeAsync();
    }

    // The core returns the IPv4 address. Applications written for the stock transport expect the mapped one.
    private EndPoint? Seen(EndPoint? endPoint) =>
        isMapped && endPoint is IPEndPoint { AddressFamily: AddressFamily.InterNetwork } plain
            ? new IPEndPoint(plain.Address.MapToIPv6(), plain.Port)
            : endPoint;

    /// <summary>Returns the exception that Kestrel's readers expect for an end other than the peer's FIN.</summary>
    internal static Exception FailureOf(CloseReason reason) => reason switch
    {
        { Exception: ConnectionAbortedException aborted } => aborted,
        { Cause: CloseCause.PeerReset } =>
            new ConnectionResetException(reason.ToString(), new NetworkException(reason.Error)),
        _ => new ConnectionAbortedException(reason.ToString(), reason.Exception ?? new NetworkException(reason.Error)),
    };

    // ------------------------------------------------------------------ the features

    bool IFeatureCollection.IsReadOnly => false;

    int IFeatureCollection.Revision => _revision;

    object? IFeatureCollection.this[Type key]
    {
        get => Find(key);
        set => Put(key, value);
    }

    TFeature? IFeatureCollection.Get<TFeature>()
        where TFeature : default => Find(typeof(TFeature)) is TFeature feature ? feature : default;

    void IFeatureCollection.Set<TFeature>(TFeature? instance)
        where TFeature : default => Put(typeof(TFeature), instance);

    private object? Find(Type key)
    {
        if (_set is { } set)
        {
            foreach (KeyValuePair<Type, object?> pair in set)
            {
                if (pair.Key == key) return pair.Value;
            }
        }

        return Array.IndexOf(s_own, key) >= 0 ? this : null;
    }

    private void Put(Type key, object? feature)
    {
        ArgumentNullException.ThrowIfNull(key);
        _revision++;
        _set ??= new List<KeyValuePair<Type, object?>>(8);
        int at = _set.FindIndex(pair => pair.Key == key);
        if (at >= 0) _set[at] = new(key, feature);
        else _set.Add(new(key, feature));
    }

    private IEnumerable<KeyValuePair<Type, object>> All()
    {
        foreach (KeyValuePair<Type, object?> pair in _set ?? [])
        {
            if (pair.Value is { } feature) yield return new(pair.Key, feature);
        }

        foreach (Type key in s_own)
        {
            if (ReferenceEquals(Find(key), this)) yield return new(key, this);
        }
    }

    IEnumerator<KeyValuePair<Type, object>> IEnumerable<KeyValuePair<Type, object>>.GetEnumerator() =>
        All().GetEnumerator();

    IEnumerator IEnumerable.GetEnumerator() => All().GetEnumerator();
}
