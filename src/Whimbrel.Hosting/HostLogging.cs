using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Logging.Abstractions;

namespace Whimbrel.Hosting;

/// <summary>Loggers of the host; none where it has no logging.</summary>
internal static class HostLogging
{
    internal static ILogger Make(IServiceProvider services, string category) =>
        services.GetService<ILoggerFactory>() is { } factory ? new FencedLogger(factory.CreateLogger(category)) : NullLogger.Instance;
}
