using System.Net.Sockets;
using CSharpServer;
using Whimbrel.Compat.Links;
using Whimbrel.Compat.Tests.Connections;

namespace Whimbrel.Compat.Tests.CSharp;

// Behaviour of a service that programs of CSharpServer rely on.
public sealed class ServiceTests
{
    [Fact]
    public void Threads_begin_before_the_start_is_reported_and_end_after_the_stop()
    {
        Log log = new();
        using RecordingService service = new(log, 2);
        Assert.Equal(2, service.Threads);
        Assert.False(service.Stop());
        Assert.True(service.Start());
        Assert.False(service.Start());
        Assert.True(service.Stop());
        Assert.False(service.Stop());
        Assert.Equal(["thread begins", "thread begins", "started True", "stopped False", "thread ends", "thread ends"],
            log.Lines);
    }

    [Fact]
    public void A_restart_is_a_stop_and_a_start()
    {
        Log log = new();
        using RecordingService service = new(log);
        Assert.False(service.Restart());
        Assert.True(service.Start());
        Assert.True(service.Restart());
        Assert.True(service.IsStarted);
        Assert.Equal(["thread begins", "started True", "stopped False", "thread ends", "thread begins", "started True"],
            log.Lines);
    }

    [Fact]
    public void OnIdle_is_called_only_for_a_polling_service()
    {
        Log log = new();
        using RecordingService service = new(log);
        Assert.True(service.Start());
        Assert.False(service.IsPolling);
        Assert.True(service.Stop());
        Assert.Equal(0, log.Count("idle"));
        Assert.True(service.Start(polling: true));
        for (int i = 0; i < 2; i++)
        {
            Assert.True(service.IsPolling);
            log.Until("idle", log.Count("idle") + 1);
            Assert.True(service.Restart());
        }

        Assert.True(service.Stop());
    }

    [Fact]
    public void A_service_without_a_thread_is_refused() =>
        Assert.Throws<ArgumentOutOfRangeException>(() => new Service(0));

    [Theory]
    [InlineData(512, "512 bytes")]
    [InlineData(15 * 1024 * 1024 + 1000 * 1024, "15.1000 MiB")]
    public void Sizes_are_as_they_were(double bytes, string text) =>
        Assert.Equal(text, Service.GenerateDataSize(bytes));

    [Theory]
    [InlineData(SocketError.AddressAlreadyInUse, 98, "system", "Address already in use")]
    [InlineData(SocketError.NoBufferSpaceAvailable, 105, "system", "No buffer space available")]
    [InlineData(SocketError.HostNotFound, 1, "asio.netdb", "Host not found (authoritative)")]
    [InlineData(SocketError.TypeNotFound, -8, "asio.addrinfo", "Service not found")]
    [InlineData(SocketError.Disconnecting, 2, "asio.misc", "End of file")]
    [InlineData(SocketError.SocketError, -1, "whimbrel.callback", "A callback threw")]
    public void Errors_have_the_numbers_and_categories_of_asio(SocketError error, int code, string category,
        string message)
    {
        AsioError asio = AsioError.Of(error);
        Assert.Equal((code, category), (asio.Code, asio.Category));
        if (OperatingSystem.IsLinux()) Assert.Equal(message, asio.Message);
    }
}
