using System.Buffers;
using System.Globalization;
using System.Security.Cryptography;
using System.Text;
using System.Threading.Channels;
using RabbitMQ.Client;
using RabbitMQ.Client.Events;
using AmqpConnection = RabbitMQ.Client.IConnection;

namespace Whimbrel.Clusters;

/// <summary>
/// One connection: an exchange, an exclusive queue of this node, and a task that sends the bus's commands in order,
/// because a subscription and a later publish keep their order. The client works on the thread pool. Envelopes are
/// passed to the loop and acknowledged after it has processed them, so that at most <see cref="MostUnread"/> are
/// waiting.
/// </summary>
internal sealed class RabbitMqLink : IAsyncDisposable
{
    /// <summary>Number of bytes queued for the client above which the bus accepts no more.</summary>
    internal const int PublishLimitBytes = 1 << 20;

    internal const int MostUnread = 256;

    /// <summary>
    /// Maximum bytes queued in the server for a stalled node. Above it the oldest are dropped, which is reported as a
    /// gap.
    /// </summary>
    private const int MostQueuedBytes = 64 << 20;

    private const int MostKeyLength = 255; // of the protocol
    private const int KeptOfLongSubject = 150;

    private static readonly CreateChannelOptions s_channel = new(publisherConfirmationsEnabled: false,
        publisherConfirmationTrackingEnabled: false, consumerDispatchConcurrency: 1);

    private readonly Lock _gate = new();
    private readonly RabbitMqBus _bus;
    private readonly Channel<Command> _commands =
        Channel.CreateUnbounded<Command>(new UnboundedChannelOptions { SingleReader = true });
    private readonly TaskCompletionSource<string> _ended = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private readonly AmqpConnection _connection;
    private readonly string _queue;
    private readonly Queue<(string Key, byte[] Envelope, ulong Tag, bool IsMark)> _arriving = []; // under the gate
    private IChannel? _channel;
    private Task? _speaking;
    private long _pending;
    private int _wantsRoom;

    private RabbitMqLink(RabbitMqBus bus, AmqpConnection connection)
    {
        (_bus, _connection) = (bus, connection);
        _queue = $"{bus.Exchange}.{Guid.NewGuid():N}";
    }

    private enum What
    {
        Publish,
        Bind,
        Unbind,
        Acknowledge,
    }

    /// <summary>Host and port of the server, for messages.</summary>
    internal string Server =>
        string.Create(CultureInfo.InvariantCulture, $"{_connection.Endpoint.HostName}:{_connection.Endpoint.Port}");

    /// <summary>Completes with the reason when the connection has ended, by either side.</summary>
    internal Task<string> Ended => _ended.Task;

    internal static async Task<RabbitMqLink> OpenAsync(RabbitMqBus bus, AmqpConnection connection,
        CancellationToken cancellationToken)
    {
        RabbitMqLink link = new(bus, connection);
        try
        {
            await link.OpenAsync(cancellationToken).ConfigureAwait(false);
            return link;
        }
        catch
        {
            await link.DisposeAsync().ConfigureAwait(false);
            throw;
        }
    }

    /// <summary>
    /// Returns the routing key of a subject. A subject longer than a key is replaced by its beginning, a <c>~</c>,
    /// which no subject contains, and a hash.
    /// </summary>
    internal static string KeyOf(string subject) =>
        subject.Length <= MostKeyLength ? subject : $"{subject.AsSpan(0, KeptOfLongSubject)}~"
            + $"{Convert.ToHexStringLower(SHA256.HashData(Encoding.ASCII.GetBytes(subject)))}";

    // ------------------------------------------------------------------ on the bus's loop

    /// <returns>
    /// False if there is no room; <see cref="IGroupBusListener.OnRoom"/> is then called when there is.
    /// </returns>
    internal bool Publish(in BusMessage message)
    {
        if (Interlocked.Read(ref _pending) > PublishLimitBytes)
        {
            Volatile.Write(ref _wantsRoom, 1);
            // The queue may have become empty since the check.
            TellRoom();
            return false;
        }

        int length = message.Envelope.Length;
        byte[] copy = ArrayPool<byte>.Shared.Rent(length);
        message.Envelope.Span.CopyTo(copy);
        Interlocked.Add(ref _pending, length);
        Command command = new(What.Publish, KeyOf(message.Subject), copy, length, 0);
        if (_commands.Writer.TryWrite(command)) return true;
        Free(command); // the connection has ended; the loop is notified soon
        return false;
    }

    internal void Bind(string key) => _commands.Writer.TryWrite(new Command(What.Bind, key, [], 0, 0));

    internal void Unbind(string key) => _commands.Writer.TryWrite(new Command(What.Unbind, key, [], 0, 0));

    private void Take()
    {
        (string Key, byte[] Envelope, ulong Tag, bool IsMark)[] all;
        lock (_gate)
        {
            all = [.. _arriving];
            _arriving.Clear();
        }

        foreach ((string key, byte[] envelope, _, bool isMark) in all)
        {
            if (isMark) _bus.Unsubscribed(this, Encoding.ASCII.GetString(envelope));
            else _bus.Received(this, key, envelope);
        }

        _commands.Writer.TryWrite(new Command(What.Acknowledge, "", [], 0, all[^1].Tag));
    }

    // ------------------------------------------------------------------ on threads of the pool

    public async ValueTask DisposeAsync()
    {
        End("it was closed");
        _commands.Writer.TryComplete();
        try
        {
            // A server that does not answer is not waited for any longer.
            await _connection.AbortAsync(200, "", TimeSpan.FromSeconds(1)).ConfigureAwait(false);
            if (_speaking is { } speaking) await speaking.ConfigureAwait(false);
            await _connection.DisposeAsync().ConfigureAwait(false);
        }
#pragma warning disable CA1031 // the connection has ended in any case, and an exception here would stop reconnecting
        catch (Exception)
#pragma warning restore CA1031
        {
            // There is nothing left to close.
        }

        while (_commands.Reader.TryRead(out Command left)) Free(left);
    }

    private async Task OpenAsync(CancellationToken cancellationToken)
    {
        _connection.ConnectionShutdownAsync += OverAsync;
        _channel = await _connection.CreateChannelAsync(s_channel, cancellationToken).ConfigureAwait(false);
        _channel.ChannelShutdownAsync += OverAsync;
        await _channel.ExchangeDeclareAsync(_bus.Exchange, ExchangeType.Direct, durable: false, autoDelete: false,
            cancellationToken: cancellationToken).ConfigureAwait(false);
        Dictionary<string, object?> limits =
            new() { ["x-max-length-bytes"] = MostQueuedBytes, ["x-overflow"] = "drop-head" };
        await _channel.QueueDeclareAsync(_queue, durable: false, exclusive: true, autoDelete: true, limits,
            cancellationToken: cancellationToken).ConfigureAwait(false);
        // For marks: a node needs no additional permission to publish to itself.
        await _channel.QueueBindAsync(_queue, _bus.Exchange, _queue, cancellationToken: cancellationToken)
            .ConfigureAwait(false);
        await _channel.BasicQosAsync(0, MostUnread, global: false, cancellationToken).ConfigureAwait(false);
        AsyncEventingBasicConsumer consumer = new(_channel);
        consumer.ReceivedAsync += ReceivedAsync;
        await _channel.BasicConsumeAsync(_queue, autoAck: false, consumer, cancellationToken).ConfigureAwait(false);
        _speaking = SpeakAsync(_channel);
    }

    private async Task SpeakAsync(IChannel channel)
    {
        try
        {
            await foreach (Command command in _commands.Reader.ReadAllAsync().ConfigureAwait(false))
            {
                try
                {
                    await SayAsync(channel, command).ConfigureAwait(false);
                }
                finally
                {
                    Free(command);
                }
            }
        }
#pragma warning disable CA1031 // any exception of the client ends this connection only
        catch (Exception e)
#pragma warning restore CA1031
        {
            End(RabbitMqFailure.Judged(e).Text.TrimEnd('.'));
        }
    }

    private async Task SayAsync(IChannel channel, Command command)
    {
        switch (command.What)
        {
            case What.Publish:
                await channel.BasicPublishAsync(_bus.Exchange, command.Key,
                    command.Envelope.AsMemory(0, command.Length)).ConfigureAwait(false);
                break;
            case What.Bind:
                await channel.QueueBindAsync(_queue, _bus.Exchange, command.Key, noWait: true).ConfigureAwait(false);
                break;
            case What.Unbind:
                await channel.QueueUnbindAsync(_queue, _bus.Exchange, command.Key).ConfigureAwait(false);
                // The mark follows the messages in transit for the subscription that ends.
                await channel.BasicPublishAsync(_bus.Exchange, _queue, Encoding.ASCII.GetBytes(command.Key))
                    .ConfigureAwait(false);
                break;
            default:
                await channel.BasicAckAsync(command.Tag, multiple: true).ConfigureAwait(false);
                break;
        }
    }

    private void Free(in Command command)
    {
        if (command.What != What.Publish) return;
        ArrayPool<byte>.Shared.Return(command.Envelope);
        Interlocked.Add(ref _pending, -command.Length);
        TellRoom();
    }

    private void TellRoom()
    {
        if (Interlocked.Read(ref _pending) <= PublishLimitBytes / 2 && Interlocked.Exchange(ref _wantsRoom, 0) == 1)
            _bus.TellRoom(this);
    }

    private Task ReceivedAsync(object sender, BasicDeliverEventArgs message)
    {
        bool isFirst;
        lock (_gate)
        {
            isFirst = _arriving.Count == 0;
            _arriving.Enqueue((message.RoutingKey, message.Body.ToArray(), message.DeliveryTag,
                message.RoutingKey == _queue));
        }

        if (isFirst) _bus.Loop.Post(static l => ((RabbitMqLink)l!).Take(), this);
        return Task.CompletedTask;
    }

    private Task OverAsync(object sender, ShutdownEventArgs reason)
    {
        End(string.Create(CultureInfo.InvariantCulture, $"{reason.ReplyText} ({reason.ReplyCode})"));
        return Task.CompletedTask;
    }

    private void End(string why)
    {
        if (_ended.TrySetResult(why)) _commands.Writer.TryComplete();
    }

    private readonly record struct Command(What What, string Key, byte[] Envelope, int Length, ulong Tag);
}
