using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Logging.Abstractions;

namespace Whimbrel.Hosting;

/// <summary>Creates loggers of the host; without logging they do nothing.</summary>
internal static class HostLogging
{
    internal static ILogger Make(IServiceProvider services, string category) =>
        services.GetService<ILoggerFactory>() is { } factory
            ? new FencedLogger(factory.CreateLogger(category))
            : NullLogger.Instance;
}
